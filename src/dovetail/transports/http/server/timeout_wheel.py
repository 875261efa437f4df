"""A coarse clock for what nearly never happens: a timer for each request would cost more than most requests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable


class Ticker:
    """Calls back for whatever is still there after so many seconds, or up to a quarter longer."""

    __slots__ = ("_entries", "_now", "_seconds", "_timer")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds / 4
        self._entries: dict[Hashable, tuple[int, Callable[[], None]]] = {}
        self._now = 0
        self._timer: asyncio.TimerHandle | None = None

    def add(self, key: Hashable, callback: Callable[[], None]) -> None:
        """Call back once, unless it is taken out before."""
        self._entries[key] = (self._now + 5, callback)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._seconds, self._tick)

    def discard(self, key: Hashable) -> None:
        """Do not call back any more."""
        self._entries.pop(key, None)

    def _tick(self) -> None:
        self._now += 1
        due = [(key, callback) for key, (end, callback) in self._entries.items() if end <= self._now]
        for key, callback in due:
            if self._entries.pop(key, None) is not None:
                callback()
        if self._entries:
            self._timer = asyncio.get_running_loop().call_later(self._seconds, self._tick)
        else:
            self._timer = None
