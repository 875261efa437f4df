"""The contract between a transport and the runtime: lines out, lines in, and how it feels to wait.

`Channel` and `Receiver` are public: whoever writes a channel of their own gives `Client` and `Server.serve` another
way to talk. A line is one whole message as bytes of JSON, however the transport tells one from the next.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from dovetail.wire.jsonrpc import Id
from dovetail.wire.lines import TooLong

MAX_LINE = 16 * 1024 * 1024
"""The longest line taken; longer ones are dropped as they arrive and answered with an error."""

HIGH_WATER = 256 * 1024
"""Above this many unsent bytes a channel is congested."""


class Receiver(Protocol):
    """Who gets what a channel reads. All calls come from the event loop's thread."""

    def received(self, line: bytes) -> None:
        """One message arrived; messages come in order, and none while the channel is paused."""
        ...

    def overlong(self, line: TooLong) -> None:
        """A message above the size limit went by; its ends tell whom to answer."""
        ...

    def failed(self, id: Id, problem: Exception) -> None:
        """A request that was sent will get no answer; the connection lives on."""
        ...

    def disconnected(self, reason: str | None) -> None:
        """Nothing more will arrive: told once, after all that arrived, and not when we closed ourselves.

        `reason` is None when the peer just ended its side and still reads; then its calls are finished first.
        """
        ...


class Outlet(Protocol):
    """Where the messages about one request go: all of them to the same channel, or each request to its own stream."""

    @property
    def congested(self) -> bool:
        """Whether the peer reads more slowly than we write."""
        ...

    @property
    def mute(self) -> str | None:
        """Why the peer cannot be asked anything here, if it cannot."""
        ...

    def send(self, line: bytes) -> None:
        """Hand over one message; never blocks, never fails."""
        ...

    def finish(self, line: bytes | None) -> None:
        """Hand over the last message about the request; None where it ends without an answer."""
        ...

    def let_go(self, retry: float) -> None:
        """Close the connection and have the peer come back for the rest after so many seconds, where it can."""
        ...

    async def drained(self) -> None:
        """Wait until the outlet is not congested, or is lost."""
        ...


class Channel(Protocol):
    """One connection that carries lines both ways; it is opened at most once and closed by whoever opened it."""

    @property
    def congested(self) -> bool:
        """Whether the peer reads more slowly than we write."""
        ...

    def open(self, receiver: Receiver) -> None:
        """Begin to read; called once, on the running loop."""
        ...

    def send(self, line: bytes) -> None:
        """Hand over one message without its newline; never blocks, never fails, also when the peer is gone."""
        ...

    def flush(self) -> None:
        """Write what is buffered now rather than with what this turn of the loop still brings."""
        ...

    async def drained(self) -> None:
        """Wait until the channel is not congested, or is lost."""
        ...

    def pause(self) -> None:
        """Hand out no more lines and stop reading, so that a flooding peer has to wait."""
        ...

    def resume(self) -> None:
        """Read again, beginning with what was read before the pause."""
        ...

    async def close(self) -> None:
        """Send what is still buffered within a bounded time, then let go of everything.

        It may be called twice, on a channel that was never opened, and when the peer is long gone.
        """
        ...


@runtime_checkable
class Withdraws(Protocol):
    """A channel where a request may be given up without a word, by closing the stream that its answer comes on."""

    def withdraw(self, id: Id) -> bool:
        """Give up a request; False where the peer has to be told with a message."""
        ...
