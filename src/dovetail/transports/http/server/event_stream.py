"""Messages about one request, or about none, on their way to a client that reads them as events.

A stream that has a log survives its connection: each event has a position there, a client that comes back
names the last one that it saw, and gets what came after it. The log is written before the client is.
Without a log a stream ends with its connection.

How much of a stream is remembered for a reader that comes back.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from dovetail.transports.base import HIGH_WATER
from dovetail.wire import sse

from .response import Reply
from .timeout_wheel import Ticker

MAX_EVENTS = 5000
MAX_BYTES = 16_000_000
"""What has been written is kept within these bounds, in case it was lost on the way; the rest is kept in any case.

Between the two ends of a connection there can be as much as their buffers hold, which is some 10 MB on Linux.
"""


class Retention:
    """Counts the entries of one log, and says how many of them to keep."""

    __slots__ = ("_before", "_bytes", "_sizes")

    def __init__(self, before: int = 0) -> None:
        """Begin to count; what was there before is kept, since nobody knows who has read it."""
        self._before = before
        self._sizes: deque[int] = deque()
        self._bytes = 0

    def keep(self, added: Iterable[int], unread: int) -> int:
        """How many entries to keep when some of these sizes are added, of which the last so many are unread."""
        for size in added:
            self._sizes.append(size)
            self._bytes += size
        while len(self._sizes) > max(unread, 1) and (self._bytes > MAX_BYTES or len(self._sizes) > MAX_EVENTS):
            self._bytes -= self._sizes.popleft()
        return self._before + len(self._sizes)


KEEP_ALIVE_SECONDS = 15.0
"""How long a stream may be silent; many proxies give up after 30 or 60 seconds."""

REPLAY = 100
"""Events read back at once."""

OPENING = b"#"
"""What the first entry of a log begins with; it says whom the stream answers, and is no message."""

CLOSING = b"!"
"""The last entry of a log: nothing comes after it."""


class EventLog(Protocol):
    """Where the events of one stream are kept."""

    async def append(self, entries: Sequence[bytes], keep: int) -> int:
        """Add entries and let go of all but the newest so many; the position of the last one."""
        ...

    async def read(self, after: int, limit: int) -> list[tuple[int, bytes]]:
        """Entries behind a position."""
        ...


class Stream:
    """One stream of messages; an outlet for the runtime, fed to whichever connection came last."""

    __slots__ = (
        "_changes",
        "_ended",
        "_feeders",
        "_letting_go",
        "_log",
        "_opening",
        "_position",
        "_recent",
        "_retention",
        "_retry",
        "_sealed",
        "_storing",
        "_unread",
        "_waiting",
        "delivered",
        "id",
        "mute",
        "on_first",
        "quiet",
        "size",
    )

    def __init__(self, id: str = "", log: EventLog | None = None, *, quiet: bool = False) -> None:
        self.id = id
        self.mute: str | None = None
        """Why the client cannot be asked anything here."""
        self.quiet = quiet
        """Whether all but the last message is left out, because the client gets one JSON value."""
        self.on_first: Callable[[], None] | None = None
        """Called when there is something to send before the last message."""
        self.delivered = 0
        """The position of the last event that was written to a connection."""
        self.size = 0
        """How many bytes its messages have."""
        self._log = log
        self._waiting: list[bytes] = []
        self._opening: tuple[int, bytes] = (0, b"")
        self._retention: Retention | None = None
        self._position = 0
        self._recent: tuple[int, list[bytes]] = (0, [])
        self._unread = 0
        self._ended = False
        self._sealed = False
        self._storing = False
        self._feeders: list[Reply] = []
        self._changes: list[asyncio.Future[None]] = []
        self._letting_go = False
        self._retry: int | None = None

    @property
    def congested(self) -> bool:
        """Whether more is unread than should be."""
        return self._unread > HIGH_WATER

    @property
    def ended(self) -> bool:
        """Whether the last message has been handed over."""
        return self._ended

    @property
    def opened(self) -> bool:
        """Whether its log has been begun."""
        return self._position > 0

    @property
    def position(self) -> int:
        """The position of the last event in the log."""
        return self._position

    @property
    def spoken(self) -> bool:
        """Whether a message of it has been written to a connection."""
        return self.delivered > max(1, self._opening[0])

    @property
    def connected(self) -> bool:
        """Whether anybody reads."""
        return bool(self._feeders)

    def send(self, line: bytes) -> None:
        """Hand over one message."""
        if not self._ended and not self.quiet:
            self._add(line)
            if self.on_first is not None:
                self.on_first()
                self.on_first = None
            self._changed()

    def finish(self, line: bytes | None) -> None:
        """Hand over the last message; None where there is none."""
        if not self._ended:
            if line is not None:
                self._add(line)
            self._ended = True
            self._changed()

    def forget_all_but(self, most: int) -> None:
        """Keep the newest messages only, of a stream that nobody has ever read."""
        if not self._position and not self._feeders and len(self._waiting) > most:
            del self._waiting[:-most]
            self._unread = sum(map(len, self._waiting))

    async def drained(self) -> None:
        """Wait until the reader has caught up, or nothing more will be sent."""
        while self.congested and not self._ended:
            await self._change(None)

    def sole_answer(self) -> bytes | None:
        """The last message, if it is the only one and no event has been written."""
        if self._ended and len(self._waiting) == 1 and not self._position and not self._storing:
            return self._waiting[0]
        return None

    async def begun(self, ticker: Ticker | None) -> None:
        """Wait until there is something to send, or so long that the client should see a sign of life."""
        if self._waiting or self._ended or self._letting_go:
            return
        change: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._changes.append(change)
        if ticker is not None:
            ticker.add(change, self._changed)
        try:
            await change
        finally:
            if ticker is not None:
                ticker.discard(change)

    def let_go(self, retry: float | None) -> None:
        """Close the connection and have the client come back for the rest (2025-11-25, "Sending Messages").

        None says nothing about when: earlier revisions have no word for it. A stream that has not begun begins: the
        client must know where to come back to.
        """
        if self._log is not None and (self._feeders or not self.opened):
            self._letting_go, self._retry = True, None if retry is None else round(retry * 1000)
            self._changed()

    def wake(self) -> None:
        """Have whoever feeds a connection look at it again."""
        self._changed()

    async def open_log(self, opening: bytes) -> None:
        """Write the first entry, which every stream with a log has."""
        if self._log is not None and self._position == 0:
            entry = OPENING + opening
            self._retention = Retention()
            self._position = await self._log.append([entry], self._retention.keep([len(entry)], 1))
            self._opening = (self._position, entry)

    def restore(self, position: int, *, ended: bool) -> None:
        """Take up a log that was written before, up to a position."""
        self._position = self.delivered = position
        self._retention = Retention(position)
        self._ended = self._sealed = ended

    async def store(self) -> None:
        """Write what waits into the log, before anybody is told of it."""
        log = self._log
        while log is not None and (self._waiting or (self._ended and not self._sealed)):
            if self._storing:
                await self._change(None)
                continue
            self._storing = True
            waiting, self._waiting = self._waiting, []
            batch = [*waiting, CLOSING] if self._ended else waiting
            try:
                await self._append(log, batch)
                self._sealed = self._ended and not self._waiting
            except BaseException:
                self._waiting[:0] = waiting
                raise
            finally:
                self._storing = False
                self._changed()

    async def _append(self, log: EventLog, batch: list[bytes]) -> None:
        """Write a batch, and the opening again where the old one is let go of."""
        before = self._position
        if self._retention is None:
            self._retention = Retention()
        keep = self._retention.keep(map(len, batch), before + len(batch) - self.delivered)
        place, opening = self._opening
        if opening and before + len(batch) - keep >= place:
            batch = [opening, *batch]
            keep = self._retention.keep([len(opening)], keep + 1)
            self._opening = (before + 1, opening)
        self._position = await log.append(batch, keep)
        self._recent = (before, batch)

    async def keep(self) -> None:
        """Write what comes into the log while nobody reads."""
        while not self._feeders:
            await self.store()
            if self._ended or self._feeders:
                return
            await self._change(None)

    def priming(self, after: int) -> bytes:
        """An event without data, so that the client knows where to come back to (2025-11-25, "Sending Messages")."""
        return sse.encode_event(b"", id=self._event_id(max(after, 1)))

    async def feed(self, reply: Reply, after: int, *, first: bytes = b"") -> None:
        """Write events to a connection, those behind a position, until the stream or the connection ends.

        Of several connections the last one that came is fed; the others wait. `first` goes before the events.
        """
        self._feeders.append(reply)
        self._changed()  # whoever keeps the stream meanwhile, or was fed before, is not needed any more
        try:
            await reply.begin_events()
            if first:
                await reply.events(first)
            await self._feed(reply, after)
        finally:
            self._feeders.remove(reply)
            self._changed()
        await reply.end()

    async def _feed(self, reply: Reply, position: int) -> None:
        waited = False
        while not reply.gone and not reply.leaving:
            if self._feeders[-1] is not reply:
                waited = True
            else:
                if waited:
                    # What another connection got in the meantime is not said again ("Multiple Connections").
                    position, waited = max(position, self.delivered), False
                await self.store()
                position = await self._deliver(reply, position)
                if self._ended and not self._waiting and position >= self._position:
                    return
                if self._letting_go:
                    self._letting_go = False
                    if self._retry is not None:
                        await reply.events(sse.encode_event(b"", id=self._event_id(position), retry=self._retry))
                    return
                if self._waiting:
                    continue
            # Who went while it was written to has woken nobody.
            if not (reply.gone or reply.leaving) and not await self._change(KEEP_ALIVE_SECONDS):
                await reply.events(sse.KEEP_ALIVE)

    async def _deliver(self, reply: Reply, position: int) -> int:
        """Write what is behind a position; how far it came."""
        if self._log is None:
            lines, self._waiting = self._waiting, []
            if lines:
                await reply.events(b"".join([sse.encode_event(line) for line in lines]))
                self._read(lines)
            return self._position
        while position < self._position and not reply.gone:
            start, recent = self._recent
            if recent and start == position:
                entries = list(enumerate(recent, start + 1))
            else:
                entries = await self._log.read(position, REPLAY)
            messages = [(place, line) for place, line in entries if line[:1] not in (OPENING, CLOSING)]
            if messages:
                await reply.events(
                    b"".join([sse.encode_event(line, id=self._event_id(place)) for place, line in messages])
                )
            if reply.gone:
                break
            self._read([line for place, line in messages if place > self.delivered])
            position = entries[-1][0] if entries else self._position
            self.delivered = max(self.delivered, position)
        return position

    def _add(self, line: bytes) -> None:
        self._waiting.append(line)
        self._unread += len(line)
        self.size += len(line)

    def _event_id(self, position: int) -> str:
        return f"{self.id}_{position}"

    def _read(self, lines: list[bytes]) -> None:
        was = self.congested
        self._unread = max(0, self._unread - sum(map(len, lines)))
        if was:
            self._changed()

    def _changed(self) -> None:
        changes, self._changes = self._changes, []
        for change in changes:
            if not change.done():
                change.set_result(None)

    async def _change(self, seconds: float | None) -> bool:
        """Wait until something changes, or that long; whether it did."""
        change: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._changes.append(change)
        if seconds is None:
            await change
            return True
        try:
            async with asyncio.timeout(seconds):
                await change
        except TimeoutError:
            return False
        finally:
            if change in self._changes:
                self._changes.remove(change)
        return True
