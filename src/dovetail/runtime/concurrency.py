"""A bound on how many of something run at once."""

from __future__ import annotations

import asyncio
from weakref import WeakKeyDictionary

from dovetail.protocol.errors import LocalError


class Turns:
    """At most so many at once, counted on each loop by itself: a lock of asyncio belongs to one loop."""

    def __init__(self, limit: int) -> None:
        if limit < 1:
            raise LocalError(f"At least one call must be able to run at once, not {limit}")
        self._limit = limit
        self._by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()

    def here(self) -> asyncio.Semaphore:
        """The turns on the running loop."""
        loop = asyncio.get_running_loop()
        found = self._by_loop.get(loop)
        if found is None:
            found = self._by_loop[loop] = asyncio.Semaphore(self._limit)
        return found
