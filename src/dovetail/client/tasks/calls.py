"""Calls that become tasks: waiting for them, starting them, and finding them again."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Generator
from typing import Any

from dovetail.protocol.deadline import Timeouts
from dovetail.protocol.errors import LocalError
from dovetail.runtime.pending_requests import OnProgress
from dovetail.types.tasks import TASKS_EXTENSION, CreatedTask, CreateTaskResult
from dovetail.types.tasks import Task as TaskFields
from dovetail.types.tools import CallToolResult

from .core_tasks import CoreTaskDriver
from .driver import TaskDriver
from .extension_tasks import ExtensionTaskDriver
from .reference import read_reference
from .services import TaskServices
from .started_call import StartedCall
from .state import TaskState, TaskUpdate, as_update
from .task import Task

DECISION_SECONDS = 5.0
"""Seconds that `start` waits for a server to make a task of the call, or to answer it otherwise."""


async def finish_call(
    services: TaskServices,
    tool: str,
    created: CreatedTask | CreateTaskResult,
    returns: Any,
    timeout: float | None,
    progress: OnProgress | None,
    *,
    check: bool,
) -> CallToolResult[Any]:
    """Wait for the task that a call was answered with; it is cancelled if the caller is, or gives up.

    The timeout of the client is for each request: the server answers those about a task although the task takes long.
    So only a timeout of the call itself, or `max_timeout`, ends the wait.
    """
    driver, update = make_driver(services, created)
    state = TaskState(update)
    task: Task[Any] = Task(services, driver, tool, state, returns)
    try:
        if timeout is None and isinstance(driver, ExtensionTaskDriver):
            await driver.look(state)
        ending = state.ending or await task.wait(Timeouts(timeout, services.max_timeout), progress)
    except BaseException as problem:
        await task.abandon(problem)
        raise
    return await task.conclude(ending, check=check)


@contextlib.contextmanager
def keep_progress(services: TaskServices, progress: OnProgress) -> Generator[str]:
    """A progress token that is valid for the lifetime of a task (2025-11-25 tasks, "Task Progress Notifications")."""
    pending = services.supervisor().connection.pending
    token = f"task-{pending.next_id()}"
    pending.task_progress[token] = progress
    try:
        yield token
    finally:
        pending.task_progress.pop(token, None)


async def start_call(
    services: TaskServices,
    tool: str,
    call: Callable[[OnProgress], Coroutine[Any, Any, object]],
    returns: Any,
    *,
    is_task: bool,
) -> Task[Any]:
    """Send a call and return its handle, as soon as the server has decided if it is a task.

    With `is_task`, the client has decided, and the server's first answer is the task.
    """
    state = TaskState(TaskUpdate(status="working"))

    def reported(done: float, total: float | None, message: str | None) -> None:
        text = message or (f"{done:g}" if total is None else f"{done:g} of {total:g}")
        state.publish(TaskUpdate(status="working", message=text))

    running = services.spawn(call(reported))
    driver = StartedCall(services, running, state, lambda created: make_driver(services, created))
    if is_task or makes_tasks(services):
        try:
            await asyncio.wait({running}, timeout=None if is_task else DECISION_SECONDS)
        except asyncio.CancelledError:
            await driver.cancel(state)
            raise
        if running.done() and not running.cancelled() and (problem := running.exception()) is not None:
            raise problem
    return Task(services, driver, tool, state, returns)


def find_task(services: TaskServices, reference: str, returns: Any) -> Task[Any]:
    """The task that a reference stands for."""
    known = read_reference(reference)
    revision = services.supervisor().agreement.revision
    if revision.tasks == "absent":
        raise LocalError(f"This connection speaks {revision.name}, which has no tasks")
    kind = ExtensionTaskDriver if revision.tasks == "extension" else CoreTaskDriver
    return Task(services, kind(services, known.id), known.tool, returns=returns)


def list_tasks(services: TaskServices, found: list[TaskFields]) -> list[Task[Any]]:
    """The handles of tasks that a server has listed; it does not say which tools they belong to."""
    return [
        Task(services, CoreTaskDriver(services, task.task_id, task.poll_interval), "", TaskState(as_update(task)))
        for task in found
    ]


def makes_tasks(services: TaskServices) -> bool:
    """True if the server has declared that it makes tasks of calls."""
    agreement = services.supervisor().agreement
    return agreement.revision.tasks == "extension" and TASKS_EXTENSION in (agreement.capabilities.extensions or {})


def make_driver(services: TaskServices, created: CreatedTask | CreateTaskResult) -> tuple[TaskDriver, TaskUpdate]:
    """The driver and the first state of the task that a call was answered with."""
    if isinstance(created, CreatedTask):
        return ExtensionTaskDriver(services, created.task_id, created.poll_interval_ms), as_update(created)
    task = created.task
    return CoreTaskDriver(services, task.task_id, task.poll_interval), as_update(task)
