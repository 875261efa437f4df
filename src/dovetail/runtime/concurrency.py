"""A bound on how many calls run at once."""

from __future__ import annotations

import asyncio
from weakref import WeakKeyDictionary

from dovetail.protocol.errors import LocalError


class PerLoopSemaphore:
    """One semaphore of the same size for each event loop: a semaphore of asyncio belongs to a single loop."""

    def __init__(self, limit: int) -> None:
        if limit < 1:
            raise LocalError(f"At least one call must be able to run at once, not {limit}")
        self._limit = limit
        self._by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()

    def current(self) -> asyncio.Semaphore:
        """The semaphore of the running loop."""
        loop = asyncio.get_running_loop()
        semaphore = self._by_loop.get(loop)
        if semaphore is None:
            semaphore = self._by_loop[loop] = asyncio.Semaphore(self._limit)
        return semaphore
