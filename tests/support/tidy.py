"""Leak checks: processes, descriptors, tasks and threads that a test leaves behind."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import threading
from collections.abc import AsyncIterator, Iterator

from tests.support.raw import PATIENCE, children, descriptors, eventually


@contextlib.contextmanager
def nothing_left() -> Iterator[None]:
    """No process, descriptor or thread more than before; each may take a moment to go."""
    processes, files, threads = set(children(os.getpid())), len(descriptors()), set(threading.enumerate())
    yield
    gc.collect()
    eventually(lambda: set(children(os.getpid())) <= processes, "the processes have ended")
    eventually(lambda: len(descriptors()) <= files, "the descriptors are closed")
    eventually(lambda: set(threading.enumerate()) <= threads, "the threads have ended")


@contextlib.asynccontextmanager
async def nothing_left_on_the_loop() -> AsyncIterator[None]:
    """The same, and no task more than before."""
    with nothing_left():
        tasks = asyncio.all_tasks()
        yield
        async with asyncio.timeout(PATIENCE):
            while left := asyncio.all_tasks() - tasks:
                await asyncio.wait(left, timeout=0.01)
