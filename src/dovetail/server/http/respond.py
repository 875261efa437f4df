"""Responding to a POST: with one JSON value, or with an event stream as soon as there is more to send.

The same for both eras. On the envelope era the request's own task serves the call, and a client that disconnects
cancels it (2026-07-28 Streamable HTTP, "Cancellation"). On the handshake era the call has a task of its own, because a
lost connection does not cancel it; the request's task waits for the first message.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from dovetail.protocol.admission import status_of
from dovetail.protocol.errors import INTERNAL_ERROR
from dovetail.protocol.revisions.revision import Revision
from dovetail.runtime.serve import Outcome, serve
from dovetail.server.auth.token_expiry import TOKEN_EXPIRED, TokenExpiry
from dovetail.server.session import ServerCall
from dovetail.storage.contract import StoreError
from dovetail.transports.http.server.event_stream import EventStream
from dovetail.transports.http.server.resumable_stream import ResumableStream
from dovetail.transports.http.server.timeout_wheel import TimeoutWheel
from dovetail.wire import codec

if TYPE_CHECKING:
    from .request import HttpRequest
    from .sessions import HttpSession

WATCH_SECONDS = 0.02
"""A call that takes longer is cancelled when its client disconnects; watching every call would cost too much."""

STREAM_SECONDS = 1.0
"""A call that takes longer is answered with a stream, whose comments keep the connection alive."""

ENDED = "The server ended before it had an answer"


class Responder:
    """Writes the responses of one application."""

    def __init__(self, poll_seconds: float | None = None) -> None:
        self._poll_seconds = poll_seconds
        self._inline: dict[ServerCall, InlineCall] = {}
        self._watch: TimeoutWheel[ServerCall] = TimeoutWheel(WATCH_SECONDS, self._watch_slow_call)
        self._slow: TimeoutWheel[ServerCall] = TimeoutWheel(STREAM_SECONDS, self._stream_now)
        self._waiting: TimeoutWheel[asyncio.Future[None]] = TimeoutWheel(STREAM_SECONDS, _wake)
        self._idle: asyncio.Event | None = None

    def __len__(self) -> int:
        return len(self._inline)

    async def respond(
        self,
        request: HttpRequest,
        stream: EventStream,
        revision: Revision,
        accepts_json: bool,
        *,
        call: ServerCall | None = None,
        outcome: Outcome = None,
        session: HttpSession | None = None,
        always_stream: bool = False,
    ) -> None:
        """Answer a POST.

        With a call, `outcome` is its answer, or the work that this task has to do for it. Without one its calls have
        tasks of their own, which write to the stream; `always_stream` answers them with events in any case.
        """
        status, inline = 200, None
        if call is None:
            if not always_stream:
                await stream.first_message(None if stream.quiet else self._waiting)
            answer = None if always_stream else stream.sole_answer()
        elif outcome is None or isinstance(outcome, bytes):
            answer = outcome
        else:
            call.task = request.task
            inline = self._inline[call] = InlineCall(request, call, stream)
            self._watch.add(call)
            try:
                answer = await serve(call, outcome)
            finally:
                self._ended(call, inline)
            if answer is None:
                status, answer = 503, inline.stopped()
        if call is not None and call.error_code is not None:
            status = status_of(revision, call.error_code)
            if isinstance(call.problem, StoreError):
                status = 503
                request.response.add_header(b"retry-after", b"1")
        if answer is not None and (inline is None or inline.writer is None) and (accepts_json or status != 200):
            await request.response.message(status, answer)
        elif inline is not None:
            inline.write_events()
            stream.finish(answer)
        else:
            if call is not None:
                stream.finish(answer)
            await self.write_events(request, session, stream, 0, revision)
        if inline is not None and inline.busy:
            await inline.finished()

    def _ended(self, call: ServerCall, inline: InlineCall) -> None:
        del self._inline[call]
        inline.stream.on_first = None  # it refers to the inline call: left there, each call would be a reference cycle
        self._watch.discard(call)
        if inline.busy:
            self._slow.discard(call)
        if call.progress_reporter is not None:
            call.progress_reporter.flush()
        call.silent = True
        if self._idle is not None and not self._inline:
            self._idle.set()

    async def write_events(
        self, request: HttpRequest, session: HttpSession | None, stream: EventStream, after: int, revision: Revision
    ) -> None:
        """Write a stream to a client until it ends or the client goes; a session then stores what still comes."""
        response, first = request.response, b""
        if session is not None and isinstance(stream, ResumableStream):
            await session.open_stream(stream)
            if revision.sse_polling:
                first = stream.priming_event(after)

        def leave() -> None:
            response.leaving = True
            stream.wake()

        def can_return() -> bool:
            # A client that has seen no event of a call, nor the id of one, cannot ask for what comes after it.
            return isinstance(stream, ResumableStream) and (
                request.method == "GET" or bool(first) or stream.has_delivered
            )

        watcher = request.watch(stream.wake)
        poll = self._poll_seconds if revision.sse_polling else None
        timer = None if poll is None else asyncio.get_running_loop().call_later(poll, stream.disconnect, 1.0)
        if session is not None:
            session.busy += 1
        try:
            with TokenExpiry(request.caller, leave, can_return):
                await stream.write_to(response, after, first=first)
        finally:
            watcher.cancel()
            if timer is not None:
                timer.cancel()
            if session is not None:
                session.busy -= 1
                if isinstance(stream, ResumableStream):
                    await session.disconnected(stream)
            if not isinstance(stream, ResumableStream):
                stream.finish(None)  # nobody can come back to it, so no call need wait for it to be read

    async def finish(self, grace: float) -> None:
        """Let the calls end within the grace period; cancel those that have not."""
        if self._inline:
            self._idle = asyncio.Event()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(grace):
                    await self._idle.wait()
            for call in list(self._inline):
                call.stop()

    def _watch_slow_call(self, call: ServerCall) -> None:
        """A call is not quick: watch for its client going, and for the end of its token."""
        inline = self._inline[call]
        inline.watch()
        if not inline.stream.quiet:
            self._slow.add(call)

    def _stream_now(self, call: ServerCall) -> None:
        self._inline[call].write_events()


class InlineCall:
    """A call that is served in the task of its request, once it takes longer or has more to send than its answer."""

    __slots__ = ("_call", "_expiry", "_request", "_watcher", "busy", "reason", "stream", "writer")

    def __init__(self, request: HttpRequest, call: ServerCall, stream: EventStream) -> None:
        self._request = request
        self._call = call
        self._watcher: asyncio.Task[None] | None = None
        self._expiry: TokenExpiry | None = None
        self.stream = stream
        self.reason = ENDED
        """The error message of a call that is stopped here."""
        self.writer: asyncio.Task[None] | None = None
        """Writes events, once there are any."""
        self.busy = False
        """True if the client is watched, or events are written to it."""
        stream.on_first = self.write_events

    def stopped(self) -> bytes:
        """The answer to a call that was cancelled."""
        task, id = self._request.task, self._call.request.id
        if task is not None and task.cancelling():
            task.uncancel()
        return codec.failure(id, INTERNAL_ERROR, self.reason, null_id=False)

    def watch(self) -> None:
        """Cancel the call when its client goes, or when its token has expired and nobody could come back for it."""
        self.busy = True
        self._watcher = self._request.watch(self._gone)
        if not self.stream.quiet:
            self._expiry = TokenExpiry(self._request.caller, self._expire, lambda: False)
            self._expiry.start()

    def write_events(self) -> None:
        """Answer with events from now on."""
        if self.writer is None:
            self.busy = True
            self.writer = asyncio.get_running_loop().create_task(self.stream.write_to(self._request.response))

    async def finished(self) -> None:
        """Wait until the last event is written."""
        try:
            if self.writer is not None:
                await self.writer
        finally:
            if self._watcher is not None:
                self._watcher.cancel()
            if self._expiry is not None:
                self._expiry.cancel()

    def _gone(self) -> None:
        if not self._call.silent:
            # A call that has its answer is over: a connection that ends after that ends as it should.
            self._call.stop()
            self.stream.finish(None)

    def _expire(self) -> None:
        if not self._call.silent:
            self.reason = TOKEN_EXPIRED
            self._call.stop()


def _wake(change: asyncio.Future[None]) -> None:
    if not change.done():
        change.set_result(None)
