"""Backpressure: a slow reader slows the writer, and memory stays bounded.

Both directions have one class each. `UnsentBytes` counts what waits to be sent and lets senders wait until it is less;
`ReadGate` lets readers wait while their receiver is too slow. All methods are called on the event loop's thread.
"""

from __future__ import annotations

import asyncio

from .base import HIGH_WATER


class UnsentBytes:
    """Count of the bytes that wait to be sent, with a high-water mark and the tasks that wait to get below it."""

    __slots__ = ("_closed", "_high_water", "_waiters", "size")

    def __init__(self, high_water: int = HIGH_WATER) -> None:
        self.size = 0
        self._high_water = high_water
        self._closed = False
        self._waiters: list[asyncio.Future[None]] = []

    @property
    def congested(self) -> bool:
        """True if more bytes wait than the high-water mark allows."""
        return self.size > self._high_water

    @property
    def closed(self) -> bool:
        """True if the connection is lost, so that nothing is counted any more."""
        return self._closed

    def add(self, size: int) -> None:
        """Count bytes that are to be sent; a closed count stays at zero."""
        if not self._closed:
            self.size += size

    def remove(self, size: int) -> None:
        """Count bytes as sent, and wake those who wait if that was enough."""
        if not self._closed:
            self.size -= size
            if self._waiters and self.size <= self._high_water:
                self._wake()

    def close(self) -> None:
        """The connection is lost: nothing waits any more, and nobody has to."""
        self._closed = True
        self.size = 0
        self._wake()

    async def drained(self) -> None:
        """Wait until no more bytes wait than the high-water mark allows, or the connection is lost."""
        while self.size > self._high_water:
            await self._change()

    async def emptied(self) -> None:
        """Wait until nothing waits to be sent, or the connection is lost."""
        while self.size:
            await self._change()

    async def _change(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        await waiter

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)


class ReadGate:
    """Pauses all readers of a channel while its receiver is too slow."""

    def __init__(self) -> None:
        self._reopened: asyncio.Event | None = None

    @property
    def closed(self) -> bool:
        """True if reading is paused."""
        return self._reopened is not None

    def close(self) -> None:
        """Pause reading."""
        if self._reopened is None:
            self._reopened = asyncio.Event()

    def open(self) -> None:
        """Resume reading."""
        if self._reopened is not None:
            self._reopened.set()
            self._reopened = None

    async def wait_open(self) -> None:
        """Wait while reading is paused."""
        while self._reopened is not None:
            await self._reopened.wait()
