"""The server's end of stdio: stdin and stdout, reserved for the protocol.

stdio transport: the server must not write anything to stdout that is not a message. So descriptor 1 is
pointed at stderr (what a handler or a child process prints goes there) and descriptor 0 at the null
device, before any handler runs. The first print gets a note that says so.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Any, Self, TextIO, cast

from .base import MAX_LINE, Receiver
from .line_channel import LineChannel
from .line_sink import line_sink
from .line_source import line_source


class StdioChannel(LineChannel):
    """Lines from stdin, lines to stdout."""

    def __init__(self, max_line: int = MAX_LINE) -> None:
        super().__init__(max_line)
        self._input, self._output = _claim_standard_streams()
        self._closed = False

    def open(self, receiver: Receiver) -> None:
        """Begin to read."""
        self._receiver = receiver
        self._sink = line_sink(self._output, receiver.disconnected)
        self._source = line_source(self._input, self._max_line, self._received, receiver.disconnected)
        self._source.start()

    async def close(self) -> None:
        """Write what is left, then restore the standard streams."""
        if self._closed:
            return
        self._closed = True
        try:
            if self._source is not None:
                self._source.stop()
            if self._sink is not None:
                await self._sink.finish()
        finally:
            _release_standard_streams(self._input, self._output)


def replace_closed_standard_streams() -> None:
    """Open the null device where a standard stream is closed, before another file gets its number."""
    for standard in (0, 1, 2):
        try:
            os.fstat(standard)
        except OSError:
            null = os.open(os.devnull, os.O_RDWR)
            if null != standard:
                os.dup2(null, standard)
                os.close(null)
            os.set_inheritable(standard, True)


def _claim_standard_streams() -> tuple[int, int]:
    """Redirect descriptors 0 and 1, and return copies of what they were."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stdout.flush()
    input_fd, output_fd = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    if (reconfigure := getattr(sys.stdout, "reconfigure", None)) is not None:
        reconfigure(line_buffering=True)
        _FirstPrint.install(sys.stdout)
    return input_fd, output_fd


class _FirstPrint:
    """`sys.stdout` until something is printed: writes a note to stderr and puts the stream back that it stands for."""

    _installed: Self | None = None
    """Kept, for `print` holds no reference of its own to the stream that it writes to."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    @classmethod
    def install(cls, stream: TextIO) -> None:
        """Take the place of the stream."""
        cls._installed = cls(stream)
        setattr(sys, "stdout", cls._installed)  # noqa: B010 - it has everything of a stream, by `__getattr__`

    @classmethod
    def remove(cls) -> None:
        """Put the stream back, if nothing was printed."""
        if (installed := cls._installed) is not None and cast("object", sys.stdout) is installed:
            sys.stdout = installed._stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write a note, and then the text."""
        if cast("object", sys.stdout) is self:
            sys.stdout = self._stream
            caller = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
            place = f"{os.path.basename(caller.f_code.co_filename)}:{caller.f_lineno}"
            with contextlib.suppress(OSError, ValueError, AttributeError):
                sys.stderr.write(f"note: {place} prints to stdout, which carries messages; prints go to stderr.\n")
        return self._stream.write(text)


def _release_standard_streams(input_fd: int, output_fd: int) -> None:
    _FirstPrint.remove()
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stdout.flush()
    for kept, standard in ((input_fd, 0), (output_fd, 1)):
        with contextlib.suppress(OSError):
            os.set_blocking(kept, True)
            os.dup2(kept, standard)
            os.close(kept)
