"""Reading and writing file descriptors on the event loop, with threads where a loop cannot poll them.

Pipes and sockets are polled. Regular files, terminals and everything on Windows go through a thread each.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
import sys
import threading
from collections.abc import Callable
from typing import Protocol

from dovetail.wire.lines import LineSplitter, TooLong

from .base import HIGH_WATER

PIPE_SIZE = 64 * 1024
"""What a pipe holds unless told otherwise; a read of just this much found it full."""

_WIDE = 1024 * 1024
_CHUNK = 1024 * 1024
_REST_CHUNKS = 16
_LINES_A_TURN = 1024
"""Lines handed out before the loop gets its turn, so that a flood of short ones holds up nobody else."""

_CLOSE_SECONDS = 2.0

OnLine = Callable[[bytes | TooLong], None]
OnEnd = Callable[[str | None], None]


def pollable(fd: int) -> bool:
    """Whether the event loop can wait for this descriptor, and non-blocking mode stays ours alone.

    That mode belongs to the open file, not to the descriptor: where stderr is the same pipe (`2>&1`), what
    anyone logs would fail with EAGAIN as soon as the pipe is full.
    """
    if sys.platform == "win32":
        return False
    status = os.fstat(fd)
    return (stat.S_ISFIFO(status.st_mode) or stat.S_ISSOCK(status.st_mode)) and not _is_stderr(status)


def _is_stderr(status: os.stat_result) -> bool:
    try:
        return os.path.samestat(status, os.fstat(2))
    except OSError:
        return False


def widen(fd: int) -> None:
    """Make a pipe larger that turns out too small for what goes through it, where the system lets us.

    Not at the start: Linux grants a user so many pages for all pipes together.
    """
    if sys.platform == "linux":
        import fcntl

        with contextlib.suppress(OSError):
            if fcntl.fcntl(fd, fcntl.F_GETPIPE_SZ) < _WIDE:
                fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, _WIDE)


class LineSource(Protocol):
    """Something that lines come from."""

    def start(self) -> None: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...
    def read_rest(self) -> None: ...
    def drop(self) -> None: ...
    def stop(self) -> None: ...


class LineSink(Protocol):
    """Something that lines go to."""

    @property
    def congested(self) -> bool: ...
    def send(self, line: bytes) -> None: ...
    def flush(self) -> None: ...
    async def drained(self) -> None: ...
    async def finish(self) -> None: ...


def line_source(fd: int, limit: int, on_line: OnLine, on_end: OnEnd) -> LineSource:
    """The way to read lines from this descriptor."""
    kind = PolledSource if pollable(fd) else ThreadedSource
    return kind(fd, limit, on_line, on_end)


def line_sink(fd: int, on_lost: OnEnd) -> LineSink:
    """The way to write lines to this descriptor."""
    return PolledSink(fd, on_lost) if pollable(fd) else ThreadedSink(fd, on_lost)


class Splitting:
    """What both kinds of source share: cutting chunks into lines, handing out none while paused, one end."""

    _loop: asyncio.AbstractEventLoop

    def __init__(self, fd: int, limit: int, on_line: OnLine, on_end: OnEnd) -> None:
        self._fd = fd
        self._splitter = LineSplitter(limit)
        self._on_line = on_line
        self._on_end = on_end
        self._paused = False
        self._dropping = False
        self._held: list[bytes | TooLong] = []
        self._end_held: tuple[str | None] | None = None
        self._ended = False

    def pause(self) -> None:
        """Hand out no more lines and, after the chunk that is being read, leave what arrives where it is."""
        self._paused = True
        self._rest_from_reading()

    def resume(self) -> None:
        """Read again, after the lines that were read already."""
        self._paused = False
        self._go_on()

    def drop(self) -> None:
        """Go on reading, so that the writer does not block, but look at nothing any more."""
        self._dropping, self._held = True, []
        self.resume()

    def _rest_from_reading(self) -> None: ...

    def _read_again(self) -> None: ...

    def _take(self, data: bytes) -> None:
        if not self._dropping:
            self._hand_out(self._splitter.feed(data))

    def _end(self, reason: str | None) -> None:
        """Tell of the end, after the lines that are still held."""
        if self._ended or self._end_held is not None:
            return
        self._end_held = (reason,)
        self._hand_out([rest] if (rest := self._splitter.end()) is not None else [])

    def _hand_out(self, lines: list[bytes | TooLong]) -> None:
        """One chunk may hold thousands of lines, so whoever pauses us in their midst is obeyed at once."""
        if self._ended:
            return
        if self._held:
            lines, self._held = self._held + lines, []
        on_line = self._on_line
        for index, line in enumerate(lines):
            if self._paused or index == _LINES_A_TURN:
                self._held = lines[index:]
                if not self._paused:
                    self._rest_from_reading()
                    self._loop.call_soon(self._go_on)
                return
            on_line(line)
        if self._end_held is not None and not self._paused:
            self._ended = True
            self._on_end(self._end_held[0])

    def _go_on(self) -> None:
        if not self._paused:
            self._hand_out([])
            if not self._held and not self._paused and not self._ended:
                self._read_again()


class PolledSource(Splitting):
    """Reads when the loop says that there is something."""

    def start(self) -> None:
        """Begin to read."""
        os.set_blocking(self._fd, False)
        self._chunk = PIPE_SIZE
        self._loop = asyncio.get_running_loop()
        self._read_again()

    def read_rest(self) -> None:
        """Take what has arrived already, up to a bound and without waiting."""
        with contextlib.suppress(OSError):
            for _ in range(_REST_CHUNKS):
                if self._ended or not (data := os.read(self._fd, _CHUNK)):
                    break
                self._take(data)
        while self._held and not self._paused:
            self._hand_out([])
        self._end(None)

    def stop(self) -> None:
        """Read no more; the descriptor stays open for its owner to close."""
        self._rest_from_reading()
        self._ended = True

    def _rest_from_reading(self) -> None:
        self._loop.remove_reader(self._fd)

    def _read_again(self) -> None:
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
                widen(self._fd)
                self._chunk = _CHUNK
            elif self._chunk > PIPE_SIZE:
                self._chunk = PIPE_SIZE
            self._take(data)
        else:
            self._loop.remove_reader(self._fd)
            self._end(None)


class ThreadedSource(Splitting):
    """Reads in a daemon thread, at most one chunk ahead of the loop."""

    def start(self) -> None:
        """Begin to read."""
        self._loop = asyncio.get_running_loop()
        self._may_read = threading.Event()
        self._may_read.set()
        self._stopped = False
        threading.Thread(target=self._work, name="dovetail-read", daemon=True).start()

    def _rest_from_reading(self) -> None:
        self._may_read.clear()

    def _read_again(self) -> None:
        self._may_read.set()

    def read_rest(self) -> None:
        """Nothing to do: the thread reads as fast as it can."""

    def stop(self) -> None:
        """Read no more; a read that is blocked ends with the process."""
        self._stopped = self._ended = True
        self._may_read.set()

    def _work(self) -> None:
        handled = threading.Event()
        while not self._stopped:
            self._may_read.wait()
            try:
                data, reason = os.read(self._fd, _CHUNK), None
            except OSError as problem:
                data, reason = b"", f"reading failed: {problem}"
            handled.clear()
            try:
                self._loop.call_soon_threadsafe(self._deliver, data, reason, handled)
            except RuntimeError:
                return
            if not data:
                return
            handled.wait()

    def _deliver(self, data: bytes, reason: str | None, handled: threading.Event) -> None:
        if data and not self._stopped:
            self._take(data)
        elif not data:
            self._end(reason)
        handled.set()


class Backlog:
    """What both kinds of sink share: a queue with a high-water mark, and those who wait for it to shrink."""

    def __init__(self, fd: int, on_lost: OnEnd) -> None:
        self._fd = fd
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._lines: list[bytes] = []
        self._size = 0
        self._lost = False
        self._waiters: list[asyncio.Future[None]] = []

    @property
    def congested(self) -> bool:
        """Whether more than the high-water mark waits to be written."""
        return self._size > HIGH_WATER

    async def drained(self) -> None:
        """Wait until the queue is below the high-water mark."""
        while self.congested and not self._lost:
            await self._wait()

    async def _written_out(self) -> None:
        """Wait until everything is written, up to a bound."""
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                while self._size and not self._lost:
                    await self._wait()
        except TimeoutError:
            pass

    async def _wait(self) -> None:
        waiter = self._loop.create_future()
        self._waiters.append(waiter)
        await waiter

    def _wake(self) -> None:
        if self._waiters and (self._lost or not self.congested):
            waiters, self._waiters = self._waiters, []
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)


class TurnBacklog(Backlog):
    """Collects the lines of one turn of the loop, to be written together."""

    def __init__(self, fd: int, on_lost: OnEnd) -> None:
        super().__init__(fd, on_lost)
        self._soon: asyncio.Handle | None = None
        self._blocked = False

    def send(self, line: bytes) -> None:
        """Queue one line; it goes out with the others of this turn."""
        if self._lost:
            return
        self._lines.append(line)
        self._size += len(line) + 1
        if self._soon is None and not self._blocked:
            self._soon = self._loop.call_soon(self._write)

    def flush(self) -> None:
        """Write now what would be written in the next turn of the loop."""
        if self._soon is not None:
            self._soon.cancel()
            self._write()

    def _write(self) -> None:
        raise NotImplementedError


class PolledSink(TurnBacklog):
    """Writes to a descriptor as much as it takes."""

    def __init__(self, fd: int, on_lost: OnEnd) -> None:
        super().__init__(fd, on_lost)
        os.set_blocking(fd, False)
        self._rest = memoryview(b"")
        self._wide = False

    async def finish(self) -> None:
        """Wait until everything is written, up to a bound."""
        await self._written_out()
        self._lose(None)

    def _write(self) -> None:
        self._soon = None
        if self._size > PIPE_SIZE and not self._wide:
            self._wide = True
            widen(self._fd)
        try:
            while self._size:
                if not self._rest:
                    self._lines.append(b"")
                    self._rest = memoryview(b"\n".join(self._lines))
                    self._lines.clear()
                written = os.write(self._fd, self._rest)
                self._size -= written
                self._rest = self._rest[written:]
        except (BlockingIOError, InterruptedError):
            self._blocked = True
            self._loop.add_writer(self._fd, self._writable)
        except OSError as problem:
            self._lose(f"writing failed: {problem}")
            return
        self._wake()

    def _writable(self) -> None:
        self._loop.remove_writer(self._fd)
        self._blocked = False
        self._write()

    def _lose(self, reason: str | None) -> None:
        if self._lost:
            return
        self._lost = True
        self._loop.remove_writer(self._fd)
        self._lines.clear()
        self._rest, self._size = memoryview(b""), 0
        self._wake()
        if reason is not None:
            self._on_lost(reason)


class ThreadedSink(Backlog):
    """Writes in a daemon thread; blocking mode of the descriptor is left alone."""

    def __init__(self, fd: int, on_lost: OnEnd) -> None:
        super().__init__(fd, on_lost)
        self._ready = threading.Condition()
        threading.Thread(target=self._work, name="dovetail-write", daemon=True).start()

    def send(self, line: bytes) -> None:
        """Queue one line for the thread."""
        with self._ready:
            if self._lost:
                return
            self._lines.append(line)
            self._size += len(line) + 1
            self._ready.notify()

    def flush(self) -> None:
        """Nothing to do: the thread writes as fast as it can."""

    async def finish(self) -> None:
        """Wait until everything is written, up to a bound, and end the thread."""
        await self._written_out()
        with self._ready:
            self._lost = True
            self._ready.notify()

    def _work(self) -> None:
        reason: str | None = None
        while reason is None:
            with self._ready:
                while not self._lines and not self._lost:
                    self._ready.wait()
                if self._lost:
                    return
                self._lines.append(b"")
                data = memoryview(b"\n".join(self._lines))
                self._lines.clear()
            size = len(data)
            try:
                while data:
                    data = data[os.write(self._fd, data) :]
            except OSError as problem:
                reason = f"writing failed: {problem}"
            try:
                self._loop.call_soon_threadsafe(self._written, size, reason)
            except RuntimeError:
                return

    def _written(self, size: int, reason: str | None) -> None:
        with self._ready:
            self._size -= size
            self._lost = self._lost or reason is not None
        self._wake()
        if reason is not None:
            self._on_lost(reason)
