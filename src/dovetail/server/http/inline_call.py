"""A request of the envelope era: served in the task that brought it, stopped when its client goes.

2026-07-28 Streamable HTTP, "Cancellation": closing the stream cancels the request.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from dovetail.protocol.admission import status_of
from dovetail.protocol.errors import INTERNAL_ERROR
from dovetail.runtime.call import Call
from dovetail.server.auth.token_expiry import TOKEN_EXPIRED, TokenExpiry
from dovetail.transports.http.server.asgi import until_gone
from dovetail.transports.http.server.event_stream import Stream
from dovetail.transports.http.server.timeout_wheel import Ticker
from dovetail.wire import codec

if TYPE_CHECKING:
    from .asgi_app import Arrival

WATCH_SECONDS = 0.02
"""A call that takes longer is stopped when its client goes; to watch from the start would cost more than most take."""

LONG_SECONDS = 1.0
"""A call that takes longer answers with a stream, whose comments keep the connection alive."""

ENDED = "The server ended before it had an answer"


class Alone:
    """The calls that are being served each in a task of its own."""

    def __init__(self) -> None:
        self._calls: set[Call] = set()
        self._watch = Ticker(WATCH_SECONDS)
        self._long = Ticker(LONG_SECONDS)
        self._idle: asyncio.Event | None = None

    def __len__(self) -> int:
        return len(self._calls)

    async def serve(self, arrival: Arrival, call: Call, stream: Stream) -> None:
        """Serve a request and answer with JSON, or with events if there is more to say than the answer."""
        call.task = arrival.task
        escort = _Escort(arrival, call, stream)
        self._calls.add(call)
        self._watch.add(call, lambda: self._take_time(escort, call, stream))
        try:
            answer = await call.connection.serve_alone(call)
        finally:
            self._calls.discard(call)
            self._watch.discard(call)
            if escort.watching:
                self._long.discard(call)
            if self._idle is not None and not self._calls:
                self._idle.set()
        status = 200 if call.code is None else status_of(call.terms.revision, call.code)
        if answer is None:
            if arrival.task is not None and arrival.task.cancelling():
                arrival.task.uncancel()
            status = 503
            answer = codec.failure(call.request.id, INTERNAL_ERROR, escort.why, null_id=False)
        if escort.writing is None:
            await arrival.reply.json(status, answer)
        else:
            stream.finish(answer)
        await escort.written()

    def _take_time(self, escort: _Escort, call: Call, stream: Stream) -> None:
        escort.watch()
        if not stream.quiet:
            self._long.add(call, escort.write_events)
            escort.bound()

    async def finish(self, grace: float) -> None:
        """Let the calls end within the grace period; stop those that have not."""
        if self._calls:
            self._idle = asyncio.Event()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(grace):
                    await self._idle.wait()
            for call in list(self._calls):
                call.stop()


class _Escort:
    """Looks after a call that takes its time: its client may go, and it may need a stream of events."""

    __slots__ = ("_arrival", "_call", "_lifetime", "_stream", "_watcher", "why", "writing")

    def __init__(self, arrival: Arrival, call: Call, stream: Stream) -> None:
        self._arrival = arrival
        self._call = call
        self._stream = stream
        self._watcher: asyncio.Task[None] | None = None
        self._lifetime: TokenExpiry | None = None
        self.why = ENDED
        """What the client is told of a call that was stopped here."""
        self.writing: asyncio.Task[None] | None = None
        """Writes events, once there are any."""
        stream.on_first = self.write_events

    @property
    def watching(self) -> bool:
        """Whether the client is watched."""
        return self._watcher is not None

    def watch(self) -> None:
        """Stop the call when its client goes."""
        self._watcher = asyncio.get_running_loop().create_task(self._until_gone())

    def bound(self) -> None:
        """Stop the call when its token has ended long since: nobody can come back to it for its answer."""
        self._lifetime = TokenExpiry(self._arrival.visitor, self._expire, lambda: False)
        self._lifetime.start()

    def _expire(self) -> None:
        if not self._call.silent:
            self.why = TOKEN_EXPIRED
            self._call.stop()

    def write_events(self) -> None:
        """Answer with events from now on."""
        if self.writing is None:
            self.writing = asyncio.get_running_loop().create_task(self._stream.feed(self._arrival.reply, 0))

    async def written(self) -> None:
        """Wait until the last event is written."""
        try:
            if self.writing is not None:
                await self.writing
        finally:
            if self._watcher is not None:
                self._watcher.cancel()
            if self._lifetime is not None:
                self._lifetime.cancel()
            self._stream.on_first = None  # it refers to this object: left there, each call would be a reference cycle

    async def _until_gone(self) -> None:
        await until_gone(self._arrival.receive)
        self._arrival.reply.gone = True
        if not self._call.silent:
            # A call that has its answer is over: a connection that ends after that ends as it should.
            self._call.stop()
            self._stream.finish(None)
