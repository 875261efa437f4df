"""Ordered delivery: each message is sent after the peer has accepted the one before."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class OrderedSender(Generic[T]):
    """Queue with one delivery at a time; a task runs only while there is something to deliver."""

    def __init__(self, deliver: Callable[[T], Awaitable[None]]) -> None:
        self._deliver = deliver
        self._waiting: deque[T] = deque()
        self._running: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, item: T) -> None:
        """Deliver an item after all that were put before it."""
        self._waiting.append(item)
        if self._running is None:
            self._running = asyncio.get_running_loop().create_task(self._run(), name="dovetail-ordered-sender")

    async def finish(self, seconds: float) -> None:
        """Deliver the queued items, for at most so many seconds, and stop."""
        if self._running is not None:
            await asyncio.wait({self._running}, timeout=seconds)
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait({self._running})

    async def _run(self) -> None:
        try:
            while self._waiting:
                await self._deliver(self._waiting[0])
                self._waiting.popleft()
        finally:
            self._waiting.clear()
            self._running = None
