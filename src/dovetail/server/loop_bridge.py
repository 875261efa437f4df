"""The way of a plain function in a thread to the event loop: coroutines run there while the thread waits."""

from __future__ import annotations

import asyncio
import functools
import queue
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias, TypeVar

from dovetail.protocol.errors import LocalError

T = TypeVar("T")

CallHere: TypeAlias = "Callable[[Callable[[], Any]], Coroutine[Any, Any, Any]]"
"""Calls a function in the thread that waits, and returns its result on the event loop."""


class LoopBridge:
    """Runs coroutines on the loop of one call for its handler, which waits for them in a thread.

    When the call is cancelled, what the handler waits for raises `CancelledError` in the thread, and so does everything
    that it would wait for later. It is made on the loop; several threads of a handler may use it at once.
    """

    __slots__ = ("_is_cancelled", "_loop", "_tasks")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._is_cancelled = False

    def run(self, work: Callable[[CallHere], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine on the loop, in the context of this thread, and wait for its result."""
        if asyncio._get_running_loop() is not None:
            raise LocalError(
                "The methods of SyncContext block, so that they cannot be called on an event loop: "
                "declare Context in an async def handler"
            )
        waiting = _Waiting(self._loop)
        try:
            self._loop.call_soon_threadsafe(self._start, waiting, work)
        except RuntimeError:
            raise asyncio.CancelledError("the server has stopped") from None
        return waiting.result()

    def call_soon(self, function: Callable[..., Any], *args: Any) -> None:
        """Call a function on the loop, without waiting for it."""
        self.run(functools.partial(_call, function, *args))

    def cancel(self) -> None:
        """Cancel what the handler waits for, now and from now on; on the loop."""
        self._is_cancelled = True
        for task in list(self._tasks):
            task.cancel()

    def _start(self, waiting: _Waiting, work: Callable[[CallHere], Coroutine[Any, Any, Any]]) -> None:
        if self._is_cancelled:
            waiting.done(None)
            return
        task = self._loop.create_task(_contained(work(waiting.call_here)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(waiting.done)


class _Waiting:
    """One thread that waits for a task on the loop, and meanwhile calls functions for it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._inbox: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._task: asyncio.Task[Any] | None = None
        self._escaped: BaseException | None = None

    def result(self) -> Any:
        """Wait for the task; in the thread."""
        while (job := self._inbox.get()) is not None:
            job()
        if self._escaped is not None:
            raise self._escaped
        if self._task is None or self._task.cancelled():
            raise asyncio.CancelledError("the request was cancelled")
        return self._task.result()

    def done(self, task: asyncio.Task[Any] | None) -> None:
        """Let the thread go on; on the loop."""
        self._task = task
        self._inbox.put(None)

    async def call_here(self, function: Callable[[], Any]) -> Any:
        """Call a function in the thread; on the loop."""
        future: asyncio.Future[Any] = self._loop.create_future()
        self._inbox.put(functools.partial(self._call, function, future))
        return await future

    def _call(self, function: Callable[[], Any], future: asyncio.Future[Any]) -> None:
        try:
            settle = functools.partial(_set_result, future, function())
        except StopIteration as problem:  # a coroutine would take it as a signal to itself
            settle = functools.partial(_set_exception, future, RuntimeError(f"{type(problem).__name__}: {problem}"))
        except Exception as problem:
            settle = functools.partial(_set_exception, future, problem)
        except BaseException as problem:
            # SystemExit and the like would end the loop: they are raised in the thread, where they belong.
            self._escaped = problem
            settle = future.cancel
        self._loop.call_soon_threadsafe(settle)


def _set_result(future: asyncio.Future[Any], value: Any) -> None:
    if not future.done():
        future.set_result(value)


def _set_exception(future: asyncio.Future[Any], problem: Exception) -> None:
    if not future.done():
        future.set_exception(problem)


async def _call(function: Callable[..., Any], *args: Any) -> None:
    *given, _ = args
    function(*given)


async def _contained(work: Coroutine[Any, Any, T]) -> T:
    """A task that raises SystemExit or KeyboardInterrupt would end the loop."""
    try:
        return await work
    except (SystemExit, KeyboardInterrupt) as problem:
        raise RuntimeError(f"{type(problem).__name__}: {problem}") from problem
