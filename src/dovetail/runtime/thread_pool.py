"""Threads for handlers written as plain functions.

The pool grows to what is needed up to a bound and never reads input. Results come back to the loop in
batches: one wake-up serves every result that is ready.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import inspect
import queue
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

MAX_THREADS = 32

_UNAWAITABLE = (StopIteration, GeneratorExit, asyncio.CancelledError)
"""What a coroutine that waits for a thread would take as a signal to itself."""


class ThreadPool:
    """A pool of daemon threads, so that a handler that never returns cannot keep the process alive.

    It serves any number of loops, one after the other or at once.
    """

    def __init__(self, max_threads: int = MAX_THREADS) -> None:
        self._max = max_threads
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._inbox: _Inbox | None = None
        self._lock = threading.Lock()
        self._threads = 0
        self._busy = 0

    async def run(self, function: Callable[[], Any], ended: Callable[[], None] | None = None) -> Any:
        """Call the function in a thread, in the caller's context variables, and wait for its result.

        A cancelled caller stops waiting at once. A function that has not begun by then never will; one
        that has cannot be stopped, and its result is dropped. `ended` is called, on the loop, when no
        thread runs the function any more, which may be long after that.
        """
        loop = asyncio.get_running_loop()
        inbox = self._inbox
        if inbox is None or inbox.loop is not loop:
            inbox = self._inbox = _Inbox(loop)
        future: asyncio.Future[Any] = loop.create_future()
        job = _Job(future, inbox, function, ended)
        self._start(job)
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                future.exception()  # came too late for anyone, but is not to be reported as unseen
            # While all threads are busy the job stays in the queue, but holds nothing.
            job.function = job.future = None
            raise

    async def call_any(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function that may be async or plain: the async one on the loop, the plain one in a thread.

        A plain function that returns an awaitable has it awaited on the loop.
        """
        if _is_async(function):
            return await function(*args)
        outcome = await self.run(functools.partial(function, *args) if args else function)
        return await outcome if inspect.isawaitable(outcome) else outcome

    def stop(self) -> None:
        """Let the threads end when they have nothing left to do; the next job starts new ones."""
        with self._lock:
            for _ in range(self._threads):
                self._jobs.put(None)
            # A queue of their own for those that come: threads still busy could not take their jobs.
            self._jobs = queue.SimpleQueue()
            self._threads = self._busy = 0

    def _start(self, job: _Job) -> None:
        with self._lock:
            self._busy += 1
            if self._threads < min(self._busy, self._max):
                self._threads += 1
                name = f"dovetail-worker-{self._threads}"
                threading.Thread(target=self._work, args=(self._jobs,), name=name, daemon=True).start()
            self._jobs.put(job)

    def _work(self, jobs: queue.SimpleQueue[_Job | None]) -> None:
        while (job := jobs.get()) is not None:
            result: Any = None
            problem: BaseException | None = None
            if (function := job.function) is not None:
                try:
                    result = job.context.run(function)
                except BaseException as raised:
                    problem = raised
            with self._lock:
                if jobs is self._jobs:
                    self._busy -= 1
            job.inbox.put(job, result, problem)
            # What the function took and gave is not kept while the thread waits for its next job.
            del job, function, result, problem


class _Job:
    __slots__ = ("context", "ended", "function", "future", "inbox")

    def __init__(
        self,
        future: asyncio.Future[Any],
        inbox: _Inbox,
        function: Callable[[], Any],
        ended: Callable[[], None] | None,
    ) -> None:
        self.future: asyncio.Future[Any] | None = future
        self.inbox = inbox
        self.ended = ended
        self.context = contextvars.copy_context()
        self.function: Callable[[], Any] | None = function


class _Inbox:
    """Results on their way back to one loop."""

    __slots__ = ("_results", "_waking", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._results: deque[tuple[_Job, Any, BaseException | None]] = deque()
        self._waking = False

    def put(self, job: _Job, result: Any, problem: BaseException | None) -> None:
        """Hand over a result, from any thread."""
        self._results.append((job, result, problem))
        if not self._waking:
            self._waking = True
            # A loop that is closed has nobody left who waits.
            with contextlib.suppress(RuntimeError):
                self.loop.call_soon_threadsafe(self._collect)

    def _collect(self) -> None:
        # Cleared first: a result that comes while we collect wakes us once more rather than never.
        self._waking = False
        while self._results:
            job, result, problem = self._results.popleft()
            future = job.future
            if job.ended is not None:
                job.ended()
            if future is None or future.done():
                continue
            if problem is None:
                future.set_result(result)
            elif isinstance(problem, _UNAWAITABLE):
                future.set_exception(RuntimeError(f"the handler raised {type(problem).__name__}"))
            else:
                future.set_exception(problem)


def _is_async(function: Callable[..., Any]) -> bool:
    while isinstance(function, functools.partial):
        function = function.func
    # An object with an async `__call__` is no coroutine function itself.
    called = getattr(function, "__call__", None)  # noqa: B004
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)
