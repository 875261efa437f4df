"""Event streams: the messages about one request, or about none, on their way to a client that reads them as SSE.

`EventStream` ends with its connection. `resumable_stream` adds a log, by which a stream survives its connection.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Callable, Mapping

from dovetail.transports.base import HIGH_WATER
from dovetail.wire import sse

from .response import HttpResponse
from .timeout_wheel import TimeoutWheel

KEEP_ALIVE_SECONDS = 15.0
"""Seconds that a stream may be silent; many proxies close a connection after 30 or 60 seconds."""


class State(enum.Enum):
    """The states of an event stream."""

    OPEN = "messages may be sent"
    ENDED = "the last message has been handed over"
    SEALED = "the log holds all messages and its closing entry"


class Event(enum.Enum):
    """The events that change them."""

    FINISH = "the last message"
    SEAL = "the closing entry is written to the log"
    REOPEN_ENDED = "a log with a closing entry is read back"


TRANSITIONS: dict[tuple[State, Event], State] = {
    (State.OPEN, Event.FINISH): State.ENDED,
    (State.OPEN, Event.REOPEN_ENDED): State.SEALED,
    (State.ENDED, Event.SEAL): State.SEALED,
}


class EventStream:
    """One stream of messages: the message sink of a request, written to the connection that came last."""

    __slots__ = (
        *("_readers", "_unread", "_waiters", "_waiting", "no_requests", "on_first", "quiet", "request_headers"),
        "state",
    )

    def __init__(self, *, quiet: bool = False) -> None:
        self.state = State.OPEN
        self.no_requests: str | None = None
        """Why no request can be sent to the client here; None where it can."""
        self.request_headers: Mapping[bytes, bytes] | None = None
        """The headers of the request, until it is answered: a stream that can be resumed outlives its request."""
        self.quiet = quiet
        """True if all but the last message is dropped, because the client gets one JSON value."""
        self.on_first: Callable[[], None] | None = None
        """Called when there is something to send before the last message."""
        self._waiting: list[bytes] = []
        self._unread = 0
        self._readers: list[HttpResponse] = []
        self._waiters: list[asyncio.Future[None]] = []

    @property
    def congested(self) -> bool:
        """True if the client reads more slowly than we write."""
        return self._unread > HIGH_WATER

    @property
    def ended(self) -> bool:
        """True if the last message has been handed over."""
        return self.state is not State.OPEN

    @property
    def connected(self) -> bool:
        """True if a client reads it."""
        return bool(self._readers)

    def send(self, line: bytes) -> None:
        """Hand over one message."""
        if self.state is State.OPEN and not self.quiet:
            self._waiting.append(line)
            self._unread += len(line)
            if self.on_first is not None:
                self.on_first()
                self.on_first = None
            self.wake()

    def finish(self, line: bytes | None) -> None:
        """Hand over the last message; None where there is none."""
        if self.state is State.OPEN:
            if line is not None:
                self._waiting.append(line)
                self._unread += len(line)
            self.state = TRANSITIONS[self.state, Event.FINISH]
            self.request_headers = None
            self.wake()

    def disconnect(self, retry: float | None) -> None:
        """Nothing to do: without a log nobody could come back for the rest."""

    def flush(self) -> None:
        """Nothing to do: messages are written as they come."""

    async def close(self) -> None:
        """End the stream."""
        self.finish(None)

    async def drained(self) -> None:
        """Wait until the client has caught up, or nothing more will be sent."""
        while self.congested and self.state is State.OPEN:
            await self._changed(None)

    def sole_answer(self) -> bytes | None:
        """The last message, if it is the only one and no event has been written."""
        if self.state is State.OPEN or len(self._waiting) != 1 or self._readers:
            return None
        return self._waiting[0]

    async def first_message(self, wheel: TimeoutWheel[asyncio.Future[None]] | None) -> None:
        """Wait until there is something to send, or so long that the client should see a sign of life."""
        if self._waiting or self.state is not State.OPEN:
            return
        change: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(change)
        if wheel is not None:
            wheel.add(change)
        try:
            await change
        finally:
            if wheel is not None:
                wheel.discard(change)

    def wake(self) -> None:
        """Have every writer of a connection look at the stream again."""
        if self._waiters:
            waiters, self._waiters = self._waiters, []
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)

    async def write_to(self, response: HttpResponse, after: int = 0, *, first: bytes = b"") -> None:
        """Write events to a connection, those after a position, until the stream or the connection ends.

        Of several connections the last one that came is written to; the others wait. `first` goes before the events.
        """
        self._readers.append(response)
        self.wake()  # whoever stores the stream meanwhile, or was written to before, is not needed any more
        try:
            await response.begin_events()
            if first:
                await response.events(first)
            await self._write(response, after)
        finally:
            if response in self._readers:  # unless they were released
                self._readers.remove(response)
            self.wake()
        await response.end()

    async def _write(self, response: HttpResponse, position: int) -> None:
        while not response.closed:
            if self._readers[-1] is response:
                await self._write_waiting(response)
                if self.ended and not self._waiting:
                    return
                if self._waiting:
                    continue
            await self._keep_alive(response)

    async def _write_waiting(self, response: HttpResponse) -> None:
        lines, self._waiting = self._waiting, []
        if lines:
            await response.events(b"".join([sse.encode_event(line) for line in lines]))
            self._was_read(lines)

    async def _keep_alive(self, response: HttpResponse) -> None:
        """Wait for the next change, with comments in between."""
        # A client that left while it was written to has woken nobody.
        if not response.closed and not await self._changed(KEEP_ALIVE_SECONDS):
            await response.events(sse.KEEP_ALIVE)

    def _was_read(self, lines: list[bytes]) -> None:
        was = self.congested
        self._unread = max(0, self._unread - sum(map(len, lines)))
        if was:
            self.wake()

    async def _changed(self, seconds: float | None) -> bool:
        """Wait until something changes, or that long; True if it did."""
        change: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(change)
        if seconds is None:
            await change
            return True
        try:
            async with asyncio.timeout(seconds):
                await change
        except TimeoutError:
            return False
        finally:
            if change in self._waiters:
                self._waiters.remove(change)
        return True
