"""Resumable event streams: streams with a log, which survive their connection.

Each event has a position in the log; a client that reconnects names the last one that it saw and gets what came after
it (2025-11-25, "Resumability and Redelivery"). The log is written before the client is.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from dovetail.transports.base import HIGH_WATER
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

REPORT_BYTES = HIGH_WATER // 4
"""Bytes delivered from the log of another process, after which that process is told: it waits for a slow reader."""

OPENING = b"#"
"""First byte of the first entry of a log; it names the requests that the stream answers, and is no message."""

CLOSING = b"!"
"""The last entry of a log: nothing comes after it."""

MARK = b"@"
"""First byte of an entry that begins with a word for whoever writes the log; the message, if any, is what follows."""


class LogTaken(Exception):
    """Another process has ended the stream, or writes its log now: nothing that is added here reaches the client."""


class EventLog(Protocol):
    """The stored events of one stream."""

    async def append(self, entries: Sequence[bytes], keep: int, *, close: bool) -> int:
        """Add entries and drop all but the newest so many; the position of the last one.

        `close` lets nothing come after them. Raises `LogTaken`.
        """
        ...

    async def read(self, after: int, limit: int) -> list[tuple[int, bytes]]:
        """Entries after a position."""
        ...


def message_of(entry: bytes) -> bytes:
    """The message in an entry of a log; empty for an entry that has none."""
    kind = entry[:1]
    if kind in (OPENING, CLOSING):
        return b""
    return entry.partition(b" ")[2] if kind == MARK else entry


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
            "_reported",
            "_requests",
            "_retention",
            "_retry",
            "_storing",
            "_unattended",
        ),
        *("delivered", "id", "on_delivered", "size"),
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
        self.on_delivered: Callable[[int, int], None] | None = None
        """Called with a position and a number of bytes, now and then, if another process writes the log."""
        self._reported = 0
        self._log = log
        self._opening: tuple[int, bytes] = (0, b"")
        self._retention: Retention | None = None
        self._position = 0
        self._recent: tuple[int, list[bytes]] = (0, [])
        self._storing = False
        self._unattended = False
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
            self._position = await self._log.append([entry], self._retention.keep([len(entry)], 1), close=False)
            self._opening = (self._position, entry)

    def restore(self, position: int, *, ended: bool) -> None:
        """Continue a log that was written before, up to a position."""
        self._position = self.delivered = position
        self._retention = Retention(position)
        if ended:
            self.state = TRANSITIONS[self.state, Event.REOPEN_ENDED]

    def advance(self, entries: Sequence[tuple[int, bytes]]) -> None:
        """Entries that another process has written to the log."""
        before, lines = self._position, [line for _, line in entries]
        self._position = entries[-1][0]
        # Only entries without a gap are kept; the others are read from the log.
        self._recent = (before, lines) if self._position - before == len(lines) else (0, [])
        if lines[-1] == CLOSING and self.state is State.OPEN:
            self.state = TRANSITIONS[self.state, Event.REOPEN_ENDED]
        self.wake()

    def read_elsewhere(self, position: int, size: int) -> None:
        """Another process has written events to the client, up to a position and of so many bytes."""
        self.delivered = max(self.delivered, min(position, self._position))
        self._unread = max(0, self._unread - size)
        self.wake()

    def release_readers(self) -> None:
        """Close the connections that read the stream here: its client has resumed it at another process.

        One of them may be dead and full, so that nothing is to wait for it.
        """
        for response in self._readers:
            response.leaving = True
        self._readers.clear()
        self.wake()

    def abandon(self) -> None:
        """End the stream without storing anything more: another process has ended or taken it."""
        self._waiting.clear()
        self._unread = 0
        if self.state is State.OPEN:
            self.state = TRANSITIONS[self.state, Event.REOPEN_ENDED]
        elif self.state is State.ENDED:
            self.state = TRANSITIONS[self.state, Event.SEAL]
        self.wake()

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
                await self._append([*waiting, CLOSING] if ended else waiting, close=ended)
                if ended and not self._waiting:
                    self.state = TRANSITIONS[self.state, Event.SEAL]
            except LogTaken:
                self.abandon()
                await self._read_ending()
            except BaseException:
                self._waiting[:0] = waiting
                raise
            finally:
                self._storing = False
                self.wake()

    async def _read_ending(self) -> None:
        """Read how another process has ended the stream, for a client that still reads it here."""
        assert self._log is not None
        entries = await self._log.read(self._position, MAX_EVENTS)
        if entries and entries[-1][1] == CLOSING:
            self.advance(entries)

    async def _append(self, batch: list[bytes], *, close: bool) -> None:
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
        self._position = await self._log.append(batch, keep, close=close)
        self._recent = (before, batch)

    async def store_until_read(self) -> bool:
        """Write messages into the log while no client reads the stream; True if this has written the last one."""
        if self._unattended:
            return False
        self._unattended = True
        try:
            while not self._readers:
                await self.store()
                if self.ended or self._readers:
                    break
                await self._changed(None)
        finally:
            self._unattended = False
        return self.ended

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
        while position < self._position and not response.closed:
            start, recent = self._recent
            if recent and start == position:
                entries = list(enumerate(recent, start + 1))
            else:
                entries = await self._log.read(position, REPLAY)
            messages = [(place, line) for place, entry in entries if (line := message_of(entry))]
            if messages:
                await response.events(
                    b"".join([sse.encode_event(line, id=self._event_id(place)) for place, line in messages])
                )
            if response.gone:
                break
            fresh = [
                entry for place, entry in entries if place > self.delivered and entry[:1] not in (OPENING, CLOSING)
            ]
            self._was_read(fresh)
            position = entries[-1][0] if entries else self._position
            self.delivered = max(self.delivered, position)
            if self.on_delivered is not None:
                self._reported += sum(map(len, fresh))
                if self._reported >= REPORT_BYTES:
                    self.on_delivered(position, self._reported)
                    self._reported = 0
        return position

    def _event_id(self, position: int) -> str:
        return f"{self.id}_{position}"
