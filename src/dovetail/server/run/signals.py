"""Shutdown of a process that serves: graceful at the first signal, at once at the second, forced after that."""

from __future__ import annotations

import _thread
import asyncio
import contextlib
import gc
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Protocol

from .loop_watchdog import watching_loop

_TEARDOWN_SECONDS = 5.0
"""The time after the grace period in which the process may still end by itself."""

_AT_ONCE_SECONDS = 2.0
"""The same once a second signal has cancelled everything."""


class Runner(Protocol):
    """Something that serves until it is stopped."""

    @property
    def running(self) -> bool:
        """True between start-up and shutdown."""
        ...

    async def run(self) -> None:
        """Serve until stopped, or until there is nothing more to do."""
        ...

    def stop(self) -> None:
        """Begin a graceful shutdown: accept nothing new, finish what runs."""
        ...


def run_until_signalled(
    make: Callable[[], Runner], grace: float, new_loop: Callable[[], asyncio.AbstractEventLoop] | None = None
) -> None:
    """Run what `make` returns on an event loop of its own, until it ends or a signal stops it."""
    forced_exit = ForcedExit()

    async def main() -> None:
        runner = make()
        task = asyncio.current_task()
        assert task is not None
        install_signal_handlers(runner, task, forced_exit, grace)
        # What set-up made lives as long as the process: the garbage collector need not look at it again.
        gc.freeze()
        with contextlib.suppress(asyncio.CancelledError), watching_loop():
            await runner.run()
        if len(asyncio.all_tasks()) > 1:
            forced_exit.after(_AT_ONCE_SECONDS)

    try:
        with asyncio.Runner(loop_factory=new_loop) as loop:
            loop.run(main())
    finally:
        forced_exit.cancel()
        if not forced_exit.planned:
            # The program may go on. After a signal it ends, and collecting everything would only delay that.
            gc.unfreeze()


class ForcedExit:
    """Ends the process if it has not ended by itself in time.

    A handler may block the event loop, so that no signal is handled, or ignore its cancellation.
    """

    def __init__(self) -> None:
        self._cancelled = threading.Event()
        self.planned = False
        """True once the process has been told to end."""

    def after(self, seconds: float) -> None:
        """End the process after some seconds, unless it is cancelled before."""
        self.planned = True
        # A bare thread, because threading.Thread takes locks that a frame interrupted by a signal may hold.
        _thread.start_new_thread(self._wait, (seconds,))

    def cancel(self) -> None:
        """The process ends by itself."""
        self._cancelled.set()

    def _wait(self, seconds: float) -> None:
        if not self._cancelled.wait(seconds):
            with contextlib.suppress(OSError):
                os.write(2, b"A handler does not stop; the server exits without waiting for it.\n")
            os._exit(0)


def install_signal_handlers(runner: Runner, task: asyncio.Task[None], forced_exit: ForcedExit, grace: float) -> None:
    """Stop `runner` at the first SIGINT or SIGTERM, and cancel its `task` at one that comes during the shutdown."""
    loop = asyncio.get_running_loop()
    signalled = False

    def stop() -> None:
        if runner.running:
            runner.stop()
        else:
            task.cancel()

    # Runs in the main thread even when the loop is blocked; the loop's own handler runs only when it is not.
    def on_signal(number: int, frame: object) -> None:
        nonlocal signalled
        forced_exit.after(_AT_ONCE_SECONDS if signalled else grace + _TEARDOWN_SECONDS)
        signalled = True
        if sys.platform == "win32":
            loop.call_soon_threadsafe(stop)

    for number in (signal.SIGINT, signal.SIGTERM):
        if sys.platform != "win32":
            # Also sets the file descriptor by which the loop learns of signals, whose handler is replaced next.
            loop.add_signal_handler(number, stop)
        signal.signal(number, on_signal)
        if sys.platform != "win32":
            signal.siginterrupt(number, False)


class ShutdownPipes:
    """Two pipes by which a parent process tells its workers to shut down, by closing the write end.

    Pipes, not signals: a signal sent to us may be sent to the whole process group too, and a worker would count two.
    They also close when the parent is killed.
    """

    def __init__(self) -> None:
        self.graceful = _Pipe()
        """Closed to begin a graceful shutdown."""
        self.now = _Pipe()
        """Closed to cancel everything that still runs."""

    def close_write_ends(self) -> None:
        """In a worker: only the parent may hold the write ends."""
        self.graceful.close_write_end()
        self.now.close_write_end()

    def close(self) -> None:
        """Close both pipes."""
        for pipe in (self.graceful, self.now):
            pipe.close_write_end()
            os.close(pipe.read_end)


class _Pipe:
    """A pipe that carries no data; closing its write end makes the read end readable."""

    def __init__(self) -> None:
        self.read_end, self._write_end = os.pipe()

    def close_write_end(self) -> None:
        """Close the write end, if that has not been done."""
        end, self._write_end = self._write_end, -1
        if end >= 0:
            os.close(end)
