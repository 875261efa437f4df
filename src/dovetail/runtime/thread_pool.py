"""Threads for handlers written as plain functions.

Most of what a call in a thread costs are context switches: one for each wake-up, and a second one when the thread
that was woken finds Python's global interpreter lock (GIL) held and has to wait again. So both sides wake each other by
writing to an eventfd: the GIL is released during the write, and the other side can take it at once.

Jobs and results are passed on in batches: each turn of the loop wakes at most one more thread, which runs jobs until
none are left, and the loop is woken once for all results that are ready.

While fewer than half of the threads are busy, jobs run in the order in which they came. Above that they wait in a
`FairQueue`, so that a client or a function that blocks its threads leaves some to the others.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import inspect
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Hashable
from typing import Any, TypeVar
from weakref import WeakKeyDictionary, WeakSet, ref

from .fair_queue import FairQueue, Share

MAX_THREADS = 64
"""Threads of one pool. One function of one client takes at most half of them; see `fair_queue`."""

_UNSHARED: Share = (None, None)

_COUNTER_SIZE = 8
_ONE = (1).to_bytes(_COUNTER_SIZE, sys.byteorder)
"""The number that is written to an eventfd, in the machine's byte order, and the size of what is read from it."""

_UNAWAITABLE = (StopIteration, GeneratorExit, asyncio.CancelledError)
"""Exceptions that the coroutine of the caller would take as a signal to itself."""


R = TypeVar("R")


_pools: WeakSet[ThreadPool] = WeakSet()


class ThreadPool:
    """A pool of daemon threads, so that a handler that never returns cannot keep the process alive.

    It grows to what is needed up to a bound, and serves any number of loops, one after the other or at once.
    """

    def __init__(self, max_threads: int = MAX_THREADS) -> None:
        self._max = max_threads
        self._half = max(1, max_threads // 2)
        self._jobs: deque[_Job] = deque()
        self._lock = threading.Lock()
        """Guards the set of threads and the fair queue."""
        self._workers: set[_Worker] = set()
        self._waiting: FairQueue[_Job] = FairQueue(max_threads)
        self._fair = False
        """True while jobs wait in the fair queue; then every job is taken from there."""
        # Changed without the lock, by list operations that are atomic.
        self._idle: list[_Worker] = []
        self._waking: list[_Worker] = []
        self._results: _Results | None = None
        self._results_by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, ref[_Results]] = WeakKeyDictionary()
        self._dispatching: asyncio.AbstractEventLoop | None = None
        _pools.add(self)

    async def run(
        self, function: Callable[[], Any], ended: Callable[[], None] | None = None, share: Share = _UNSHARED
    ) -> Any:
        """Call the function in a thread, in a copy of the caller's context, and wait for its result.

        A cancelled caller stops waiting at once. A function that has not begun by then never will; one
        that has cannot be stopped, and its result is dropped. `ended` is called, on the loop, when no
        thread runs the function any more, which may be long after that. The thread counts for `share`.
        """
        loop = asyncio.get_running_loop()
        results = self._results
        if results is None or results.loop is not loop:
            results = self._results = self._results_of(loop)
        job = _Job(results, function, ended, share)
        self._jobs.append(job)
        if self._dispatching is not loop:
            if len(self._idle) == len(self._workers):
                self._dispatch(loop)
            else:
                self._dispatch_soon(loop)
        return await job

    async def call_any(self, function: Callable[..., Any], *args: Any, client: Hashable = None) -> Any:
        """Call a function that may be async or plain: the async one on the loop, the plain one in a thread.

        A plain function that returns an awaitable has it awaited on the loop. The thread counts for `client`.
        """
        if _is_async(function):
            return await function(*args)
        outcome = await self.run(functools.partial(function, *args) if args else function, None, (client, None))
        return await outcome if inspect.isawaitable(outcome) else outcome

    @property
    def busy(self) -> int:
        """The number of threads that run a function, or are about to."""
        return len(self._workers) - len(self._idle)

    def stop(self) -> None:
        """End the threads when they have nothing left to do; the next job starts new ones.

        It is called on the loop that used the pool, or after that loop was closed.
        """
        with self._lock:
            workers, self._workers = self._workers, set()
        for worker in workers:
            worker.stopped = True
        while self._wake_one():
            pass
        self._results = None
        with contextlib.suppress(RuntimeError):
            known = self._results_by_loop.pop(asyncio.get_running_loop(), None)
            if known is not None and (results := known()) is not None:
                results.close()

    def _results_of(self, loop: asyncio.AbstractEventLoop) -> _Results:
        known = self._results_by_loop.get(loop)
        if known is None or (results := known()) is None:
            results = _Results(loop)
            self._results_by_loop[loop] = ref(results)
        return results

    def _dispatch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Have one thread more take jobs, and go on in the next turn of the loop while there are too few."""
        self._dispatching = None
        if self._fair or len(self._workers) - len(self._idle) >= self._half:
            self._dispatch_fairly()
            return
        if len(self._jobs) <= len(self._waking):
            return
        if not self._wake_one() and not self._start_thread():
            return  # the threads that are busy take what is left
        if len(self._jobs) > len(self._waking):
            self._dispatch_soon(loop)

    def _dispatch_fairly(self) -> None:
        """Give a thread to every job whose turn it is; the others wait until a thread has done with its job."""
        while True:
            with self._lock:
                if (job := self._take_fairly()) is None:
                    return
                worker, is_new = self._pop_idle(), False
                if worker is None:
                    worker, is_new = self._make_worker(), True
                if worker is None:
                    break
                worker.job, worker.share = job, job.share
                self._waking.append(worker)
            self._start(worker) if is_new else worker.wake()
        # A thread that is neither idle nor busy at this moment looks for jobs once more before it sleeps. If it has
        # looked already, it is idle now.
        self._jobs.appendleft(job)
        self._wake_one()

    def _take_fairly(self) -> _Job | None:
        """The next job in turn, by the fair queue; called with the lock."""
        # Before the threads are counted: one that has just done with its job either counts as free here, or sees this.
        self._fair = True
        waiting, jobs = self._waiting, self._jobs
        with contextlib.suppress(IndexError):
            while True:
                job = jobs.popleft()
                waiting.add(job.share, job)
        taken = waiting.take(share for worker in self._workers if (share := worker.share) is not None)
        self._fair = bool(waiting)
        return taken

    def _dispatch_soon(self, loop: asyncio.AbstractEventLoop) -> None:
        self._dispatching = loop
        loop.call_soon(self._dispatch, loop)

    def _wake_one(self) -> bool:
        """Wake the thread that became idle last: what it needs is still in the processor's cache."""
        worker = self._pop_idle()
        if worker is None:
            return False
        self._waking.append(worker)
        worker.wake()
        return True

    def _pop_idle(self) -> _Worker | None:
        try:
            return self._idle.pop()
        except IndexError:
            return None

    def _start_thread(self) -> bool:
        with self._lock:
            worker = self._make_worker()
        if worker is None:
            return False
        self._waking.append(worker)
        self._start(worker)
        return True

    def _make_worker(self) -> _Worker | None:
        """Add a thread, if there may be one more; called with the lock."""
        if len(self._workers) >= self._max:
            return None
        worker = _Worker()
        self._workers.add(worker)
        return worker

    def _start(self, worker: _Worker) -> None:
        name = f"dovetail-worker-{len(self._workers)}"
        threading.Thread(target=self._work, args=(worker,), name=name, daemon=True).start()

    def _work(self, worker: _Worker) -> None:
        jobs, idle, waking = self._jobs, self._idle, self._waking
        waking.remove(worker)
        while True:
            if (job := self._next(worker)) is not None:
                job.run()
                worker.share = None
                if jobs or self._fair:
                    job.finish()
                    continue
                # Before the result is handed over: the caller may have its next job for us at once.
                idle.append(worker)
                job.finish()
                del job  # what it holds is not kept while the thread sleeps
            elif worker.stopped:
                break
            else:
                idle.append(worker)
            if jobs or worker.stopped:
                # This may date from before we could be seen to be idle: unless somebody has seen us, nobody wakes us.
                try:
                    idle.remove(worker)
                    continue
                except ValueError:
                    pass
            worker.sleep()
            waking.remove(worker)
        worker.close()

    def _next(self, worker: _Worker) -> _Job | None:
        """The job that a thread runs next, which counts for its share from now on."""
        if (job := worker.job) is not None:
            worker.job = None
        elif self._fair:
            with self._lock:
                if (job := self._take_fairly()) is not None:
                    worker.share = job.share
        else:
            try:
                job = self._jobs.popleft()
            except IndexError:
                return None
            worker.share = job.share
        return job


def busy_threads() -> int:
    """The number of threads of all pools that run a function, or are about to."""
    return sum(pool.busy for pool in list(_pools))


async def run_in_thread(function: Callable[..., R], *args: Any) -> R:
    """Call a plain function in a thread of its own, which ends with it; for work that is rare."""
    pool = ThreadPool(1)
    try:
        return await pool.run(functools.partial(function, *args))
    finally:
        pool.stop()


class _Worker:
    """One thread as the others see it: its work, how it waits and is woken, and whether it is to end."""

    __slots__ = ("_fd", "_lock", "job", "share", "stopped")

    def __init__(self) -> None:
        self.job: _Job | None = None
        """A job that was assigned to it before it was woken."""
        self.share: Share | None = None
        """The share that its current job counts for; None while it has no job."""
        self.stopped = False
        self._fd = _eventfd(blocking=True)
        self._lock = threading.Lock()
        self._lock.acquire()

    def sleep(self) -> None:
        """Wait until another thread calls `wake`, or return at once if one has."""
        if self._fd is not None:
            os.read(self._fd, _COUNTER_SIZE)
        else:
            self._lock.acquire()

    def wake(self) -> None:
        """End one `sleep`."""
        if self._fd is not None:
            os.write(self._fd, _ONE)
        else:
            self._lock.release()

    def close(self) -> None:
        """Release the descriptor; by the thread itself, when nobody wakes it any more."""
        if self._fd is not None:
            os.close(self._fd)


class _Job:
    """One function for a thread, and the future that its only caller awaits.

    It follows the protocol for futures that are not asyncio's own (see `asyncio.isfuture`). One of asyncio's would have
    its caller go on in the next turn of the loop; this one continues it in the turn that brought the result.
    """

    __slots__ = (
        "_asyncio_future_blocking",
        "_callback",
        "_callback_context",
        "_cancelled",
        "_context",
        "_ended",
        "_finished",
        "_function",
        "_problem",
        "_result",
        "_results",
        "_waiting",
        "share",
    )

    def __init__(
        self, results: _Results, function: Callable[[], Any], ended: Callable[[], None] | None, share: Share
    ) -> None:
        self.share = share
        self._asyncio_future_blocking = False
        self._results = results
        self._function: Callable[[], Any] | None = function
        self._ended = ended
        self._context = contextvars.copy_context()
        self._finished = False
        self._waiting = False
        self._cancelled: asyncio.CancelledError | None = None
        self._callback: Callable[[_Job], object] | None = None

    def run(self) -> None:
        """Call the function; in a thread of the pool."""
        if (function := self._function) is not None:
            try:
                self._result = self._context.run(function)
                self._problem = None
            except BaseException as problem:
                self._problem = problem
            self._function = None

    def finish(self) -> None:
        """Hand over the result; in a thread of the pool."""
        # In this order: the caller says that it waits before it looks whether we have finished.
        self._finished = True
        if self._waiting:
            self._results.put(self)

    def deliver(self) -> None:
        """Give the caller its result; on its loop."""
        if (ended := self._ended) is not None:
            self._ended = None
            ended()
        if (callback := self._callback) is not None:
            self._callback = None
            self._callback_context.run(callback, self)

    def __await__(self) -> Generator[_Job, None, Any]:
        self._waiting = True
        if self._finished:
            self.deliver()
        else:
            self._asyncio_future_blocking = True
            yield self
        return self.result()

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """The loop of the caller; asked by its task."""
        return self._results.loop

    def add_done_callback(self, callback: Callable[[_Job], object], *, context: contextvars.Context) -> None:
        """Take the way to continue the caller; called by its task."""
        self._callback, self._callback_context = callback, context

    def cancel(self, msg: Any = None) -> bool:
        """Continue the caller with `CancelledError`; called by its task."""
        callback = self._callback
        if callback is None:
            return False
        self._callback = None
        self._cancelled = asyncio.CancelledError() if msg is None else asyncio.CancelledError(msg)
        # While all threads are busy the job stays in the queue, but holds nothing.
        self._function = None
        self._results.loop.call_soon(callback, self, context=self._callback_context)
        return True

    def result(self) -> Any:
        """The result of the function; raises what it raised."""
        # No exception is kept: its traceback leads back to this job, and both would wait for the garbage collector.
        if (cancelled := self._cancelled) is not None:
            self._cancelled = None
            raise cancelled
        if (problem := self._problem) is None:
            return self._result
        self._problem = None
        if isinstance(problem, _UNAWAITABLE):
            raise RuntimeError(f"the handler raised {type(problem).__name__}") from problem
        raise problem


class _Results:
    """Finished jobs on their way back to one loop, which refers to this object as long as it polls it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._finished: deque[_Job] = deque()
        self._waking = False
        self._polled = False
        self._fd = _eventfd(blocking=False)
        if self._fd is not None:
            with contextlib.suppress(NotImplementedError):
                # In an empty context: that of the first caller would be kept until the loop is closed.
                contextvars.Context().run(loop.add_reader, self._fd, self._collect)
                self._polled = True

    def __del__(self) -> None:
        # Not before: the jobs that are still running refer to this object, and their threads may write.
        if self._fd is not None:
            os.close(self._fd)

    def put(self, job: _Job) -> None:
        """Hand over a job, from any thread."""
        self._finished.append(job)
        if not self._waking:
            self._waking = True
            if self._polled and self._fd is not None:
                os.write(self._fd, _ONE)
            else:
                # A loop that is closed has nobody left who waits.
                with contextlib.suppress(RuntimeError):
                    self.loop.call_soon_threadsafe(self._collect)

    def close(self) -> None:
        """Have the loop poll no more; what is still running is delivered without it."""
        if self._polled and self._fd is not None:
            self._polled = False
            self.loop.remove_reader(self._fd)
            self.loop.call_soon(self._collect)  # a thread may have written just now

    def _collect(self) -> None:
        if self._polled and self._fd is not None:
            os.read(self._fd, _COUNTER_SIZE)
        # Cleared first: a result that comes while we collect wakes us once more rather than never.
        self._waking = False
        self._deliver()

    def _deliver(self) -> None:
        try:
            while self._finished:
                self._finished.popleft().deliver()
        finally:
            if self._finished:
                # A caller let SystemExit or KeyboardInterrupt out of the loop, which may be run again.
                self.loop.call_soon(self._deliver)


def _eventfd(*, blocking: bool) -> int | None:
    """A descriptor to wake a thread with; None where the system has no eventfd, or grants no more descriptors."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            return os.eventfd(0, os.EFD_CLOEXEC | (0 if blocking else os.EFD_NONBLOCK))
    return None


def _is_async(function: Callable[..., Any]) -> bool:
    while isinstance(function, functools.partial):
        function = function.func
    # An object with an async `__call__` is no coroutine function itself.
    called = getattr(function, "__call__", None)  # noqa: B004
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)
