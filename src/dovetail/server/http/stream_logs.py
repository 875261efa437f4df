"""Logs of event streams: in the store, or in this process while the store cannot be reached."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from dovetail.storage.contract import Store, StoreUnavailable
from dovetail.transports.http.server.resumable_stream import LogTaken

WAIT_SECONDS = 15.0
"""Seconds that an event waits for a store that cannot be reached, before its stream is broken off."""

_PAUSE_SECONDS = 0.1
_MAX_PAUSE_SECONDS = 1.0


class StoredLog:
    """The log of one stream in the store."""

    __slots__ = ("_last", "_name", "_store", "_ttl", "_writer")

    def __init__(self, store: Store, name: str, ttl: float, writer: str | None = None, last: int = 0) -> None:
        """`writer` is the name that the log was claimed with; `last` is the position of its newest entry."""
        self._store = store
        self._name = name
        self._ttl = ttl
        self._writer = writer
        self._last = last

    async def append(self, entries: Sequence[bytes], keep: int, *, close: bool) -> int:
        """Add entries and drop the oldest; waits a while for a store that cannot be reached."""
        try:
            position = await self._append(entries, keep, close)
        except StoreUnavailable:
            position = await self._append_later(entries, keep, close)
        if position is None:
            raise LogTaken
        self._last = position
        return position

    async def read(self, after: int, limit: int) -> list[tuple[int, bytes]]:
        """Entries after a position."""
        return await self._store.read(self._name, after, limit)

    async def _append(self, entries: Sequence[bytes], keep: int, close: bool) -> int | None:
        return await self._store.append(self._name, entries, self._ttl, keep, writer=self._writer, close=close)

    async def _append_later(self, entries: Sequence[bytes], keep: int, close: bool) -> int | None:
        pause = _PAUSE_SECONDS
        give_up = asyncio.get_running_loop().time() + WAIT_SECONDS
        while True:
            await asyncio.sleep(pause)
            pause = min(2 * pause, _MAX_PAUSE_SECONDS)
            try:
                # The first attempt may have taken effect, and nobody else adds to this log.
                last = await self._store.last(self._name)
                if last >= self._last + len(entries):
                    return last
                return await self._append(entries, keep, close)
            except StoreUnavailable:
                if asyncio.get_running_loop().time() > give_up:
                    raise


class LocalLog:
    """A log in this process, for a stream that began while the store could not be reached; only here it is resumed."""

    __slots__ = ("_entries", "_last")

    def __init__(self) -> None:
        self._entries: list[bytes] = []
        self._last = 0

    async def append(self, entries: Sequence[bytes], keep: int, *, close: bool) -> int:
        """Add entries and drop the oldest."""
        self._entries += entries
        self._last += len(entries)
        del self._entries[:-keep]
        return self._last

    async def read(self, after: int, limit: int) -> list[tuple[int, bytes]]:
        """Entries after a position."""
        first = self._last - len(self._entries)
        start = max(after, first)
        return list(enumerate(self._entries[start - first : start - first + limit], start + 1))
