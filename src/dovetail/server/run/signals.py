"""The end of a process that serves: gracefully at the first signal, at once at the second, certainly after that."""

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

_TEARDOWN_SECONDS = 5.0
"""What the end of a process may take beyond the grace period before it is forced."""

_AT_ONCE_SECONDS = 2.0
"""The same when nothing is waited for any more."""


class Stoppable(Protocol):
    """Something that a process serves with."""

    running: bool
    """Not still starting, and not ending already."""

    async def run(self) -> None:
        """Serve until it is stopped or has nothing more to do."""
        ...

    def stop(self) -> None:
        """Take nothing new and come to an end."""
        ...


def run_to_the_end(
    make: Callable[[], Stoppable], grace: float, new_loop: Callable[[], asyncio.AbstractEventLoop] | None = None
) -> None:
    """Serve with what `make` makes on a loop of its own, until it ends or a signal says to end."""
    last_resort = LastResort()

    async def main() -> None:
        work = make()
        task = asyncio.current_task()
        assert task is not None
        on_signals(work, task, last_resort, grace)
        # What set-up made lives as long as the process: the collector need not look at it again.
        gc.freeze()
        with contextlib.suppress(asyncio.CancelledError):
            await work.run()
        if len(asyncio.all_tasks()) > 1:
            last_resort.in_seconds(_AT_ONCE_SECONDS)

    try:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(main())
    finally:
        last_resort.stand_down()


class LastResort:
    """Ends the process when its orderly end does not come.

    A handler may hold the loop, so that no signal is seen, or take no notice of being cancelled.
    """

    def __init__(self) -> None:
        self._ended = threading.Event()

    def in_seconds(self, seconds: float) -> None:
        """Wait that long for the orderly end, then end the process."""
        # A bare thread, because threading.Thread takes locks that a frame interrupted by a signal may hold.
        _thread.start_new_thread(self._wait, (seconds,))

    def stand_down(self) -> None:
        """The orderly end has come."""
        self._ended.set()

    def _wait(self, seconds: float) -> None:
        if not self._ended.wait(seconds):
            with contextlib.suppress(OSError):
                os.write(2, b"A handler does not stop; the server ends without it.\n")
            os._exit(0)


def on_signals(work: Stoppable, task: asyncio.Task[None], last_resort: LastResort, grace: float) -> None:
    """The first signal ends gracefully; one that comes when the end has begun already ends at once."""
    loop = asyncio.get_running_loop()
    asked = False

    def end() -> None:
        if work.running:
            work.stop()
        else:
            task.cancel()

    def insist(number: int, frame: object) -> None:
        nonlocal asked
        last_resort.in_seconds(_AT_ONCE_SECONDS if asked else grace + _TEARDOWN_SECONDS)
        asked = True
        if sys.platform == "win32":
            loop.call_soon_threadsafe(end)

    for number in (signal.SIGINT, signal.SIGTERM):
        if sys.platform != "win32":
            loop.add_signal_handler(number, end)
        signal.signal(number, insist)
        if sys.platform != "win32":
            signal.siginterrupt(number, False)
