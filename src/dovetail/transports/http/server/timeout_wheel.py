"""A coarse timer for what nearly never happens: a timer for each request would cost more than most requests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Item = TypeVar("Item", bound=Hashable)

_TICKS = 4


class TimeoutWheel(Generic[Item]):
    """Calls back with each item that is still there after so many seconds, or up to a quarter longer."""

    __slots__ = ("_callback", "_items", "_now", "_seconds", "_timer")

    def __init__(self, seconds: float, callback: Callable[[Item], None]) -> None:
        self._seconds = seconds / _TICKS
        self._callback = callback
        self._items: dict[Item, int] = {}
        self._now = 0
        self._timer: asyncio.TimerHandle | None = None

    def add(self, item: Item) -> None:
        """Call back once for the item, unless it is discarded before."""
        self._items[item] = self._now + _TICKS + 1
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._seconds, self._tick)

    def discard(self, item: Item) -> None:
        """Do not call back for the item any more."""
        self._items.pop(item, None)

    def _tick(self) -> None:
        self._now += 1
        due = [item for item, end in self._items.items() if end <= self._now]
        for item in due:
            if self._items.pop(item, None) is not None:
                self._callback(item)
        if self._items:
            self._timer = asyncio.get_running_loop().call_later(self._seconds, self._tick)
        else:
            self._timer = None
