"""Two ends of a channel in one process: what one sends the other receives, as the same bytes."""

from __future__ import annotations

import asyncio

from .base import HIGH_WATER, Receiver


def memory_pair() -> tuple[MemoryChannel, MemoryChannel]:
    """A client's end and a server's end, connected."""
    left, right = MemoryChannel(), MemoryChannel()
    left.other, right.other = right, left
    return left, right


class MemoryChannel:
    """One end; lines reach the other end in the next turn of the loop."""

    other: MemoryChannel

    reason = "the peer closed the connection"
    """What the other end is told when this one is closed: it reads no more either, so it has broken off."""

    def __init__(self) -> None:
        self._receiver: Receiver | None = None
        self._incoming: list[bytes] = []
        self._waiting = 0
        self._scheduled = False
        self._paused = False
        self._closed = False
        self._waiters: list[asyncio.Future[None]] = []

    @property
    def congested(self) -> bool:
        """Whether the other end has more unread bytes than the high-water mark."""
        return self.other._waiting > HIGH_WATER and not self._closed and not self.other._closed

    def open(self, receiver: Receiver) -> None:
        """Begin to receive, first what has arrived already."""
        self._receiver = receiver
        self._schedule()

    def send(self, line: bytes) -> None:
        """Put a line into the other end's queue."""
        other = self.other
        if not self._closed and not other._closed:
            other._incoming.append(line)
            other._waiting += len(line)
            other._schedule()

    def flush(self) -> None:
        """Nothing to do: lines are handed over by themselves."""

    async def drained(self) -> None:
        """Wait until the other end has read enough."""
        while self.congested:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    def pause(self) -> None:
        """Leave lines in the queue."""
        self._paused = True

    def resume(self) -> None:
        """Deliver again."""
        self._paused = False
        self._schedule()

    async def close(self) -> None:
        """Close this end; the other end reads what is queued and is then told."""
        if not self._closed:
            self._closed = True
            self._wake(self)
            self._wake(self.other)
            self.other._schedule()

    def _schedule(self) -> None:
        if not self._scheduled and self._receiver is not None:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._deliver)

    def _deliver(self) -> None:
        self._scheduled = False
        receiver = self._receiver
        if receiver is None or self._closed:
            return
        while self._incoming and not self._paused:
            lines, self._incoming = self._incoming, []
            for index, line in enumerate(lines):
                self._waiting -= len(line)
                receiver.received(line)
                if self._paused:
                    self._incoming[:0] = lines[index + 1 :]
                    break
        if not self.other.congested:
            self._wake(self.other)
        if self.other._closed and not self._incoming:
            self._receiver = None
            receiver.disconnected(self.other.reason)

    @staticmethod
    def _wake(end: MemoryChannel) -> None:
        waiters, end._waiters = end._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
