"""Sources of lines: they read a file descriptor, split what they read into lines, and stop reading while paused.

Pipes and sockets are polled by the event loop. Regular files, terminals and everything on Windows are read in a thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable
from typing import Protocol, TypeAlias

from dovetail.wire.lines import LineSplitter, TooLong

from .fd_io import PIPE_SIZE, enlarge_pipe, pollable

_CHUNK = 1024 * 1024
_MAX_AVAILABLE_CHUNKS = 16
_LINES_PER_TURN = 1024
"""Lines that are delivered before the loop gets its turn, so that a flood of short ones delays nobody else."""

OnLine: TypeAlias = "Callable[[bytes | TooLong], None]"
OnEnd: TypeAlias = "Callable[[str | None], None]"
"""Called with the reason, or None at a regular end."""


class LineSource(Protocol):
    """Reads lines and calls `on_line` with each, then `on_end` once."""

    def start(self) -> None: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...
    def read_available(self) -> None: ...
    def skip_available(self) -> None: ...
    def discard(self) -> None: ...
    def stop(self) -> None: ...


def line_source(fd: int, limit: int, on_line: OnLine, on_end: OnEnd) -> LineSource:
    """Make the kind of source that this descriptor needs."""
    kind = PolledSource if pollable(fd) else ThreadedSource
    return kind(fd, limit, on_line, on_end)


class BufferedSource:
    """Base of the sources: splits chunks into lines, and holds them back while paused.

    A subclass reads: it implements `_pause_reading` and `_resume_reading`, and calls `_feed` and `_end`.
    """

    _loop: asyncio.AbstractEventLoop

    def __init__(self, limit: int, on_line: OnLine, on_end: OnEnd) -> None:
        self._splitter = LineSplitter(limit)
        self._on_line = on_line
        self._on_end = on_end
        self._paused = False
        self._discarding = False
        self._held: list[bytes | TooLong] = []
        self._held_end: tuple[str | None] | None = None
        self._ended = False

    def pause(self) -> None:
        """Deliver no more lines and read no more, except for a chunk that is being read in a thread."""
        self._paused = True
        self._pause_reading()

    def resume(self) -> None:
        """Deliver the lines that were held back, then read again."""
        self._paused = False
        self._continue()

    def discard(self) -> None:
        """Go on reading, so that the writer does not block, but deliver nothing any more."""
        self._discarding, self._held = True, []
        self.resume()

    def skip_available(self) -> None:
        """Drop what has been read already: lines that were held back, and the beginning of the next."""
        self._held = []
        self._splitter.end()

    def _pause_reading(self) -> None:
        raise NotImplementedError

    def _resume_reading(self) -> None:
        raise NotImplementedError

    def _feed(self, data: bytes) -> None:
        if not self._discarding:
            self._deliver(self._splitter.feed(data))

    def _end(self, reason: str | None) -> None:
        """Report the end, after the lines that are still held back."""
        if self._ended or self._held_end is not None:
            return
        self._held_end = (reason,)
        self._deliver([rest] if (rest := self._splitter.end()) is not None else [])

    def _deliver(self, lines: list[bytes | TooLong]) -> None:
        """Deliver lines until paused, which may happen at any of them: one chunk may hold thousands."""
        if self._ended:
            return
        if self._held:
            lines, self._held = self._held + lines, []
        on_line = self._on_line
        for index, line in enumerate(lines):
            if self._paused or index == _LINES_PER_TURN:
                self._held = lines[index:]
                if not self._paused:
                    self._pause_reading()
                    self._loop.call_soon(self._continue)
                return
            on_line(line)
        if self._held_end is not None and not self._paused:
            self._ended = True
            self._on_end(self._held_end[0])

    def _continue(self) -> None:
        if not self._paused:
            self._deliver([])
            if not self._held and not self._paused and not self._ended:
                self._resume_reading()


class PolledSource(BufferedSource):
    """Reads when the event loop finds the descriptor readable."""

    def __init__(self, fd: int, limit: int, on_line: OnLine, on_end: OnEnd) -> None:
        super().__init__(limit, on_line, on_end)
        self._fd = fd
        self._chunk = PIPE_SIZE

    def start(self) -> None:
        """Begin to read."""
        os.set_blocking(self._fd, False)
        self._loop = asyncio.get_running_loop()
        self._resume_reading()

    def read_available(self) -> None:
        """Read what has arrived already, up to a bound and without waiting."""
        with contextlib.suppress(OSError):
            for _ in range(_MAX_AVAILABLE_CHUNKS):
                if self._ended or not (data := os.read(self._fd, _CHUNK)):
                    break
                self._feed(data)
        while self._held and not self._paused:
            self._deliver([])
        self._end(None)

    def skip_available(self) -> None:
        """Drop what has arrived already, up to a bound and without waiting, and what has been read."""
        with contextlib.suppress(OSError):
            for _ in range(_MAX_AVAILABLE_CHUNKS):
                if not os.read(self._fd, _CHUNK):
                    break
        super().skip_available()

    def stop(self) -> None:
        """Read no more; the descriptor stays open for its owner to close."""
        self._pause_reading()
        self._ended = True

    def _pause_reading(self) -> None:
        self._loop.remove_reader(self._fd)

    def _resume_reading(self) -> None:
        self._loop.add_reader(self._fd, self._readable)

    def _readable(self) -> None:
        try:
            data = os.read(self._fd, self._chunk)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as problem:
            self._loop.remove_reader(self._fd)
            self._end(f"reading failed: {problem}")
            return
        if data:
            if len(data) >= PIPE_SIZE:
                enlarge_pipe(self._fd)
                self._chunk = _CHUNK
            elif self._chunk > PIPE_SIZE:
                self._chunk = PIPE_SIZE
            self._feed(data)
        else:
            self._loop.remove_reader(self._fd)
            self._end(None)


class ThreadedSource(BufferedSource):
    """Reads in a daemon thread, at most one chunk ahead of the loop."""

    def __init__(self, fd: int, limit: int, on_line: OnLine, on_end: OnEnd) -> None:
        super().__init__(limit, on_line, on_end)
        self._fd = fd
        self._may_read = threading.Event()
        self._stopped = False

    def start(self) -> None:
        """Begin to read."""
        self._loop = asyncio.get_running_loop()
        self._may_read.set()
        threading.Thread(target=self._read, name="dovetail-read", daemon=True).start()

    def read_available(self) -> None:
        """Do nothing: the thread reads as fast as it can."""

    def stop(self) -> None:
        """Read no more; a read that blocks ends with the process."""
        self._stopped = self._ended = True
        self._may_read.set()

    def _pause_reading(self) -> None:
        self._may_read.clear()

    def _resume_reading(self) -> None:
        self._may_read.set()

    def _read(self) -> None:
        handled = threading.Event()
        while not self._stopped:
            self._may_read.wait()
            try:
                data, reason = os.read(self._fd, _CHUNK), None
            except OSError as problem:
                data, reason = b"", f"reading failed: {problem}"
            handled.clear()
            try:
                self._loop.call_soon_threadsafe(self._handle, data, reason, handled)
            except RuntimeError:  # the loop is closed
                return
            if not data:
                return
            handled.wait()

    def _handle(self, data: bytes, reason: str | None, handled: threading.Event) -> None:
        if data and not self._stopped:
            self._feed(data)
        elif not data:
            self._end(reason)
        handled.set()
