"""What every channel over file descriptors does: lines out through a sink, lines in from a source."""

from __future__ import annotations

from dovetail.wire.lines import TooLong

from .base import MAX_LINE, Receiver
from .fd_io import LineSink, LineSource


class StreamChannel:
    """A channel whose sink and source are there once it is open."""

    def __init__(self, max_line: int = MAX_LINE) -> None:
        self._max_line = max_line
        self._receiver: Receiver | None = None
        self._sink: LineSink | None = None
        self._source: LineSource | None = None

    @property
    def congested(self) -> bool:
        """Whether the peer reads more slowly than we write."""
        return self._sink is not None and self._sink.congested

    def send(self, line: bytes) -> None:
        """Queue one message."""
        if self._sink is not None:
            self._sink.send(line)

    def flush(self) -> None:
        """Write what is queued now."""
        if self._sink is not None:
            self._sink.flush()

    async def drained(self) -> None:
        """Wait while congested."""
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

    def _line(self, line: bytes | TooLong) -> None:
        assert self._receiver is not None
        if isinstance(line, bytes):
            self._receiver.received(line)
        else:
            self._receiver.overlong(line)
