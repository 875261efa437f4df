"""Resumable event streams: streams with a log, which survive their connection.

Each event has a position in the log; a client that reconnects names the last one that it saw and gets what came after
it (2025-11-25, "Resumability and Redelivery"). The log is written before the client is.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Protocol

from dovetail.wire import codec, sse
from dovetail.wire.jsonrpc import Id

from .event_stream import TRANSITIONS, Event, EventStream, State
from .response import HttpResponse
from .timeout_wheel import TimeoutWheel

MAX_EVENTS = 5000
MAX_BYTES = 16_000_000
"""Bounds on delivered events, which are kept in case they were lost on the way; undelivered ones are always kept.

Between the two ends of a connection there can be as much as their buffers hold, which is some 10 MB on Linux.
"""

REPLAY = 100
"""Events read back at once."""

OPENING = b"#"
"""First byte of the first entry of a log; it names the requests that the stream answers, and is no message."""

CLOSING = b"!"
"""The last entry of a log: nothing comes after it."""


class EventLog(Protocol):
    """The stored events of one stream."""

    async def append(self, entries: Sequence[bytes], keep: int) -> int:
        """Add entries and drop all but the newest so many; the position of the last one."""
        ...

    async def read(self, after: int, limit: int) -> list[tuple[int, bytes]]:
        """Entries after a position."""
        ...


class Retention:
    """Counts the entries of one log, and decides how many of them to keep."""

    __slots__ = ("_before", "_bytes", "_sizes")

    def __init__(self, before: int = 0) -> None:
        """Begin to count; what was there before is kept, since it is unknown who has read it."""
        self._before = before
        self._sizes: deque[int] = deque()
        self._bytes = 0

    def keep(self, added: Iterable[int], unread: int) -> int:
        """The number of entries to keep when some of these sizes are added, of which the last so many are unread."""
        for size in added:
            self._sizes.append(size)
            self._bytes += size
        while len(self._sizes) > max(unread, 1) and (self._bytes > MAX_BYTES or len(self._sizes) > MAX_EVENTS):
            self._bytes -= self._sizes.popleft()
        return self._before + len(self._sizes)


class ResumableStream(EventStream):
    """An event stream whose messages are kept in a log until the client has them."""

    __slots__ = (
        *(
            "_disconnecting",
            "_log",
            "_opening",
            "_position",
            "_recent",
            "_requests",
            "_retention",
            "_retry",
            "_storing",
        ),
        *("delivered", "id", "size"),
    )

    def __init__(self, id: str = "", log: EventLog | None = None, requests: Sequence[Id] = ()) -> None:
        """A stream gets its id and log when its first event is written; most requests never have one."""
        super().__init__()
        self.id = id
        self._requests = requests
        self.delivered = 0
        """The position of the last event that was written to a connection."""
        self.size = 0
        """Size of its log in bytes."""
        self._log = log
        self._opening: tuple[int, bytes] = (0, b"")
        self._retention: Retention | None = None
        self._position = 0
        self._recent: tuple[int, list[bytes]] = (0, [])
        self._storing = False
        self._disconnecting = False
        self._retry: int | None = None

    @property
    def opened(self) -> bool:
        """True if its log has been begun."""
        return self._position > 0

    @property
    def position(self) -> int:
        """The position of the last event in the log."""
        return self._position

    @property
    def has_delivered(self) -> bool:
        """True if a message of it has been written to a connection."""
        return self.delivered > max(1, self._opening[0])

    def sole_answer(self) -> bytes | None:
        """The last message, if it is the only one and nothing has been written to the log."""
        if self._position or self._storing or self.state is State.OPEN or len(self._waiting) != 1 or self._readers:
            return None
        return self._waiting[0]

    async def first_message(self, wheel: TimeoutWheel[asyncio.Future[None]] | None) -> None:
        """Wait until there is something to send, the client is to be disconnected, or it should see a sign of life."""
        if not self._disconnecting:
            await super().first_message(wheel)

    def disconnect(self, retry: float | None) -> None:
        """Close the connection; the client reconnects for the rest (2025-11-25, "Sending Messages").

        None says nothing about when: earlier revisions have no field for it. A stream that has not begun begins: the
        client must know where to come back to.
        """
        if self._readers or not self.opened:
            self._disconnecting, self._retry = True, None if retry is None else round(retry * 1000)
            self.wake()

    def trim(self, most: int) -> None:
        """Keep the newest messages only, of a stream that no client has ever read."""
        if not self._position and not self._readers and len(self._waiting) > most:
            del self._waiting[:-most]
            self._unread = sum(map(len, self._waiting))

    def attach_log(self, id: str, log: EventLog) -> None:
        """Give the stream its id and its log."""
        self.id, self._log = id, log

    async def open_log(self) -> None:
        """Write the first entry, which every log has."""
        if self._position == 0:
            assert self._log is not None
            entry = OPENING + codec.encode(self._requests)
            self._retention = Retention()
            self._position = await self._log.append([entry], self._retention.keep([len(entry)], 1))
            self._opening = (self._position, entry)

    def restore(self, position: int, *, ended: bool) -> None:
        """Continue a log that was written before, up to a position."""
        self._position = self.delivered = position
        self._retention = Retention(position)
        if ended:
            self.state = TRANSITIONS[self.state, Event.REOPEN_ENDED]

    async def store(self) -> None:
        """Write the waiting messages into the log, before any client gets them."""
        while self._waiting or self.state is State.ENDED:
            if self._storing:
                await self._changed(None)
                continue
            self._storing = True
            waiting, self._waiting = self._waiting, []
            ended = self.ended
            try:
                await self._append([*waiting, CLOSING] if ended else waiting)
                if ended and not self._waiting:
                    self.state = TRANSITIONS[self.state, Event.SEAL]
            except BaseException:
                self._waiting[:0] = waiting
                raise
            finally:
                self._storing = False
                self.wake()

    async def _append(self, batch: list[bytes]) -> None:
        """Write a batch, and the opening again where the old one is dropped."""
        assert self._log is not None
        before = self._position
        self.size += sum(map(len, batch))
        if self._retention is None:
            self._retention = Retention()
        keep = self._retention.keep(map(len, batch), before + len(batch) - self.delivered)
        place, opening = self._opening
        if opening and before + len(batch) - keep >= place:
            batch = [opening, *batch]
            keep = self._retention.keep([len(opening)], keep + 1)
            self._opening = (before + 1, opening)
        self._position = await self._log.append(batch, keep)
        self._recent = (before, batch)

    async def store_until_read(self) -> None:
        """Write messages into the log while no client reads the stream."""
        while not self._readers:
            await self.store()
            if self.ended or self._readers:
                return
            await self._changed(None)

    def priming_event(self, after: int) -> bytes:
        """An event without data, so that the client knows where to come back to (2025-11-25, "Sending Messages")."""
        return sse.encode_event(b"", id=self._event_id(max(after, 1)))

    async def _write(self, response: HttpResponse, position: int) -> None:
        waited = False
        while not response.closed:
            if self._readers[-1] is not response:
                waited = True
            else:
                if waited:
                    # Events that another connection got in the meantime are not sent again ("Multiple Connections").
                    position, waited = max(position, self.delivered), False
                await self.store()
                position = await self._deliver(response, position)
                if self.ended and not self._waiting and position >= self._position:
                    return
                if self._disconnecting:
                    self._disconnecting = False
                    if self._retry is not None:
                        await response.events(sse.encode_event(b"", id=self._event_id(position), retry=self._retry))
                    return
                if self._waiting:
                    continue
            await self._keep_alive(response)

    async def _deliver(self, response: HttpResponse, position: int) -> int:
        """Write the events after a position; the position that was reached."""
        assert self._log is not None
        while position < self._position and not response.gone:
            start, recent = self._recent
            if recent and start == position:
                entries = list(enumerate(recent, start + 1))
            else:
                entries = await self._log.read(position, REPLAY)
            messages = [(place, line) for place, line in entries if line[:1] not in (OPENING, CLOSING)]
            if messages:
                await response.events(
                    b"".join([sse.encode_event(line, id=self._event_id(place)) for place, line in messages])
                )
            if response.gone:
                break
            self._was_read([line for place, line in messages if place > self.delivered])
            position = entries[-1][0] if entries else self._position
            self.delivered = max(self.delivered, position)
        return position

    def _event_id(self, position: int) -> str:
        return f"{self.id}_{position}"
