"""The contract between a transport and the runtime: lines out, lines in, and how it feels to wait."""

from __future__ import annotations

from typing import Protocol

from dovetail.wire.lines import TooLong

MAX_LINE = 16 * 1024 * 1024
"""The longest line taken; longer ones are dropped as they arrive and answered with an error."""

HIGH_WATER = 256 * 1024
"""Above this many unsent bytes a channel is congested."""


class Receiver(Protocol):
    """Who gets what a channel reads. All calls come from the event loop's thread."""

    def received(self, line: bytes) -> None:
        """One message arrived."""
        ...

    def overlong(self, line: TooLong) -> None:
        """A message above the size limit went by."""
        ...

    def disconnected(self, reason: str | None) -> None:
        """Nothing more will arrive; `reason` is None when the peer just ended its side."""
        ...


class Channel(Protocol):
    """One connection that carries lines both ways."""

    @property
    def congested(self) -> bool:
        """Whether the peer reads more slowly than we write."""
        ...

    def open(self, receiver: Receiver) -> None:
        """Begin to read; called once, on the running loop."""
        ...

    def send(self, line: bytes) -> None:
        """Hand over one message without its newline; never blocks, never fails."""
        ...

    def flush(self) -> None:
        """Write what is buffered now rather than with what this turn of the loop still brings."""
        ...

    async def drained(self) -> None:
        """Wait until the channel is not congested, or is lost."""
        ...

    def pause(self) -> None:
        """Stop reading, so that a flooding peer has to wait."""
        ...

    def resume(self) -> None:
        """Read again."""
        ...

    async def close(self) -> None:
        """Send what is still buffered within a bounded time, then let go of everything."""
        ...
