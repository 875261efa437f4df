"""Blocking tasks: the handle of a call whose result is fetched later, for code without async."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Coroutine, Iterator
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from dovetail.types.tasks import TaskStatus
from dovetail.types.tools import CallToolResult

from .state import TaskUpdate
from .task import Task

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    T = TypeVar("T", default=Any)
else:
    T = TypeVar("T")

R = TypeVar("R")


class Wait(Protocol):
    """Runs a coroutine on the loop of a blocking client."""

    def __call__(self, work: Coroutine[Any, Any, R], /) -> R:
        """Its outcome."""
        ...


class BlockingTask(Generic[T]):
    """A `Task` whose methods block until the answer has come; iterating over it blocks until the next change."""

    def __init__(self, task: Task[T], wait: Wait) -> None:
        """Made by `start`, `task` and `tasks` of a blocking client."""
        self._task = task
        self._wait = wait

    def __repr__(self) -> str:
        return f"<Blocking{repr(self._task)[1:]}"

    @property
    def id(self) -> str | None:
        """The id at the server; None for a call that runs in this process."""
        return self._task.id

    @property
    def tool(self) -> str:
        """The name of the tool; empty if it is not known."""
        return self._task.tool

    @property
    def status(self) -> TaskStatus | None:
        """The latest status that is known; None before the server was asked for the first time."""
        return self._task.status

    @property
    def message(self) -> str | None:
        """The latest message that is known."""
        return self._task.message

    @property
    def reference(self) -> str:
        """The task as text, for `client.task(reference)` in another process or at a later time; as secret as the id."""
        return self._task.reference

    def refresh(self) -> TaskUpdate:
        """Ask the server for the present state, once; questions are left open."""
        return self._wait(self._task.refresh())

    def cancel(self) -> None:
        """Cancel the task; the server decides if and when it stops."""
        self._wait(self._task.cancel())

    def result(self, *, timeout: float | None = None, check: bool = True) -> CallToolResult[T]:
        """Wait for the result, with the options of `Task.result`."""
        return self._wait(self._task.result(timeout=timeout, check=check))

    def __iter__(self) -> Iterator[TaskUpdate]:
        """Each change of status or message, the present state first; it ends with the task."""
        updates = self._task.updates()
        try:
            while (update := self._wait(_next(updates))) is not None:
                yield update
        finally:
            self._wait(updates.aclose())


async def _next(updates: AsyncGenerator[TaskUpdate]) -> TaskUpdate | None:
    return await anext(updates, None)
