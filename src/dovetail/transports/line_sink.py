"""Sinks for lines: they buffer lines and write them to a file descriptor, as fast as its reader takes them.

Pipes and sockets are polled by the event loop. Regular files, terminals and all on Windows are written in a thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from typing import Protocol

from .backpressure import UnsentBytes
from .fd_io import PIPE_SIZE, enlarge_pipe, pollable
from .line_source import OnEnd

_CLOSE_SECONDS = 2.0
"""Seconds that a finished sink waits for a slow reader."""


class LineSink(Protocol):
    """Sends lines; `on_lost` is called once when nothing can be written any more."""

    @property
    def congested(self) -> bool: ...
    def send(self, line: bytes) -> None: ...
    def flush(self) -> None: ...
    async def drained(self) -> None: ...
    async def finish(self) -> None: ...


def line_sink(fd: int, on_lost: OnEnd) -> LineSink:
    """Make the kind of sink that this descriptor needs."""
    return PolledSink(fd, on_lost) if pollable(fd) else ThreadedSink(fd, on_lost)


class BufferedSink:
    """Base of the sinks: a buffer of lines, with backpressure."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._lines: list[bytes] = []
        self._unsent = UnsentBytes()

    @property
    def congested(self) -> bool:
        """True if more than the high-water mark waits to be written."""
        return self._unsent.congested

    async def drained(self) -> None:
        """Wait until the buffer is below the high-water mark."""
        await self._unsent.drained()

    async def _emptied(self) -> None:
        """Wait until everything is written, up to a bound."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._unsent.emptied()

    def _joined(self) -> bytes:
        """All lines as they are written, each with its newline; the buffer is empty after that."""
        self._lines.append(b"")
        data = b"\n".join(self._lines)
        self._lines.clear()
        return data


class BatchingSink(BufferedSink):
    """Base of the sinks on the loop: the lines of one turn of the loop are written together."""

    def __init__(self) -> None:
        super().__init__()
        self._scheduled: asyncio.Handle | None = None
        self._blocked = False

    def send(self, line: bytes) -> None:
        """Buffer one line; it is written with the others of this turn."""
        if self._unsent.closed:
            return
        self._lines.append(line)
        self._unsent.add(len(line) + 1)
        if self._scheduled is None and not self._blocked:
            self._scheduled = self._loop.call_soon(self._write)

    def flush(self) -> None:
        """Write now what would be written in the next turn of the loop."""
        if self._scheduled is not None:
            self._scheduled.cancel()
            self._write()

    def _write(self) -> None:
        raise NotImplementedError


class PolledSink(BatchingSink):
    """Writes when the event loop finds the descriptor writable."""

    def __init__(self, fd: int, on_lost: OnEnd) -> None:
        super().__init__()
        os.set_blocking(fd, False)
        self._fd = fd
        self._on_lost = on_lost
        self._rest = memoryview(b"")
        self._enlarged = False

    async def finish(self) -> None:
        """Wait until everything is written, up to a bound."""
        await self._emptied()
        self._close(None)

    def _write(self) -> None:
        self._scheduled = None
        unsent = self._unsent
        if unsent.size > PIPE_SIZE and not self._enlarged:
            self._enlarged = True
            enlarge_pipe(self._fd)
        try:
            while unsent.size:
                if not self._rest:
                    self._rest = memoryview(self._joined())
                written = os.write(self._fd, self._rest)
                self._rest = self._rest[written:]
                unsent.remove(written)
        except (BlockingIOError, InterruptedError):
            self._blocked = True
            self._loop.add_writer(self._fd, self._writable)
        except OSError as problem:
            self._close(f"writing failed: {problem}")

    def _writable(self) -> None:
        self._loop.remove_writer(self._fd)
        self._blocked = False
        self._write()

    def _close(self, reason: str | None) -> None:
        if self._unsent.closed:
            return
        self._loop.remove_writer(self._fd)
        self._lines.clear()
        self._rest = memoryview(b"")
        self._unsent.close()
        if reason is not None:
            self._on_lost(reason)


class ThreadedSink(BufferedSink):
    """Writes in a daemon thread; the blocking mode of the descriptor is left alone."""

    def __init__(self, fd: int, on_lost: OnEnd) -> None:
        super().__init__()
        self._fd = fd
        self._on_lost = on_lost
        self._changed = threading.Condition()
        threading.Thread(target=self._write, name="dovetail-write", daemon=True).start()

    def send(self, line: bytes) -> None:
        """Buffer one line for the thread."""
        with self._changed:
            if self._unsent.closed:
                return
            self._lines.append(line)
            self._unsent.add(len(line) + 1)
            self._changed.notify()

    def flush(self) -> None:
        """Do nothing: the thread writes as fast as it can."""

    async def finish(self) -> None:
        """Wait until everything is written, up to a bound, and end the thread."""
        await self._emptied()
        self._close()

    def _close(self) -> None:
        with self._changed:
            self._unsent.close()
            self._changed.notify()

    def _write(self) -> None:
        reason: str | None = None
        while reason is None:
            with self._changed:
                while not self._lines and not self._unsent.closed:
                    self._changed.wait()
                if self._unsent.closed:
                    return
                data = memoryview(self._joined())
            size = len(data)
            try:
                while data:
                    data = data[os.write(self._fd, data) :]
            except OSError as problem:
                reason = f"writing failed: {problem}"
            try:
                self._loop.call_soon_threadsafe(self._written, size, reason)
            except RuntimeError:  # the loop is closed
                return

    def _written(self, size: int, reason: str | None) -> None:
        self._unsent.remove(size)
        if reason is not None:
            self._close()
            self._on_lost(reason)
