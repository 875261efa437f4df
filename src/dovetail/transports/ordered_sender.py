"""Messages that must arrive in the order in which they were sent, each after the one before was taken."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class OrderedSender(Generic[T]):
    """Delivers one after the other; a task runs only while there is something to deliver."""

    def __init__(self, deliver: Callable[[T], Awaitable[None]]) -> None:
        self._deliver = deliver
        self._waiting: deque[T] = deque()
        self._running: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, item: T) -> None:
        """Deliver this after everything before it."""
        self._waiting.append(item)
        if self._running is None:
            self._running = asyncio.get_running_loop().create_task(self._run(), name="dovetail-lane")

    async def finish(self, seconds: float) -> None:
        """Deliver what waits, as far as the time goes, and no more after that."""
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
