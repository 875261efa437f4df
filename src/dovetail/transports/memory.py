"""A channel within one process: what one end sends the other receives, as the same bytes."""

from __future__ import annotations

import asyncio

from .backpressure import UnsentBytes
from .base import Receiver


def memory_pair() -> tuple[MemoryChannel, MemoryChannel]:
    """A client's end and a server's end, connected."""
    left, right = MemoryChannel(), MemoryChannel()
    left.other, right.other = right, left
    return left, right


class MemoryChannel:
    """One end of the channel; lines reach the other end in the next turn of the loop."""

    other: MemoryChannel

    reason = "the peer closed the connection"
    """The reason given to the other end when this one is closed; a closed end reads no more either."""

    def __init__(self) -> None:
        self._receiver: Receiver | None = None
        self._incoming: list[bytes] = []
        self._unread = UnsentBytes()
        """Bytes that the other end has sent and this one has not received."""
        self._scheduled = False
        self._paused = False
        self._closed = False

    @property
    def congested(self) -> bool:
        """True if the other end has more unread bytes than the high-water mark."""
        return self.other._unread.congested

    def open(self, receiver: Receiver) -> None:
        """Begin to receive, first what has arrived already."""
        self._receiver = receiver
        self._schedule()

    def send(self, line: bytes) -> None:
        """Put a line into the other end's buffer."""
        other = self.other
        if not self._closed and not other._closed:
            other._incoming.append(line)
            other._unread.add(len(line))
            other._schedule()

    def flush(self) -> None:
        """Do nothing: lines are delivered in the next turn of the loop."""

    async def drained(self) -> None:
        """Wait until the other end has read enough, or either end is closed."""
        await self.other._unread.drained()

    def pause(self) -> None:
        """Leave lines in the buffer."""
        self._paused = True

    def resume(self) -> None:
        """Deliver again."""
        self._paused = False
        self._schedule()

    async def close(self) -> None:
        """Close this end; the other end receives what is buffered and is then disconnected."""
        if not self._closed:
            self._closed = True
            self._unread.close()
            self.other._unread.close()
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
                self._unread.remove(len(line))
                receiver.received(line)
                if self._paused:
                    self._incoming[:0] = lines[index + 1 :]
                    break
        if self.other._closed and not self._incoming:
            self._receiver = None
            receiver.disconnected(self.other.reason)
