"""Base of the channels that carry one message a line: pipes, child processes and sockets."""

from __future__ import annotations

from dovetail.wire.lines import TooLong

from .base import MAX_LINE, Receiver
from .line_sink import LineSink
from .line_source import LineSource


class LineChannel:
    """A channel that sends to a sink and reads from a source.

    A subclass sets both when it is opened; before that, a channel takes nothing and is never congested.
    """

    def __init__(self, max_line: int = MAX_LINE) -> None:
        self._max_line = max_line
        self._receiver: Receiver | None = None
        self._sink: LineSink | None = None
        self._source: LineSource | None = None

    @property
    def congested(self) -> bool:
        """True if the peer reads more slowly than we write."""
        return self._sink is not None and self._sink.congested

    def send(self, line: bytes) -> None:
        """Buffer one message."""
        if self._sink is not None:
            self._sink.send(line)

    def flush(self) -> None:
        """Write what is buffered now."""
        if self._sink is not None:
            self._sink.flush()

    async def drained(self) -> None:
        """Wait until the channel is not congested, or is lost."""
        if self._sink is not None:
            await self._sink.drained()

    def pause(self) -> None:
        """Stop reading."""
        if self._source is not None:
            self._source.pause()

    def resume(self) -> None:
        """Read again."""
        if self._source is not None:
            self._source.resume()

    def _received(self, line: bytes | TooLong) -> None:
        assert self._receiver is not None
        if isinstance(line, bytes):
            self._receiver.received(line)
        else:
            self._receiver.overlong(line)
