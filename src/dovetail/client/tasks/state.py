"""State of a task as its client knows it, and the waiters that are told of changes."""

from __future__ import annotations

import asyncio
from collections import deque
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from dovetail.protocol.errors import InvalidAnswer
from dovetail.protocol.tasks import TERMINAL
from dovetail.types.serialization import load
from dovetail.types.tasks import ExtensionTask, Task, TaskStatus
from dovetail.types.tools import CallToolResult

S = TypeVar("S", bound=Task | ExtensionTask)


class TaskUpdate(msgspec.Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """The state of a task at one time: status, message, times in ISO 8601, and its lifetime."""

    status: TaskStatus
    message: str | None = None
    created: str | None = None
    updated: str | None = None
    ttl: float | None = None
    """Seconds from its creation for which the server keeps the task; None for ever, or if it does not say."""

    @property
    def is_ended(self) -> bool:
        """True if the task has ended, and changes no more."""
        return self.status in TERMINAL


class Ending(msgspec.Struct, frozen=True):
    """The end of a task: the result of the call, as JSON where the server keeps it, or the error that it ended in."""

    raw: Any = None
    result: CallToolResult[Any] | None = None
    error: Exception | None = None


class TaskState:
    """The latest state of a task."""

    def __init__(self, update: TaskUpdate | None = None) -> None:
        self.update = update
        self.ending: Ending | None = None
        self.open_questions = 0
        """Questions that the user or a model is answering; that time counts towards no timeout."""
        self.changes = 0
        """Grows with every change that the server tells of."""
        self.waiters: set[asyncio.Event] = set()
        self.queues: list[deque[TaskUpdate]] = []
        """The unread updates of each reader."""

    def publish(self, update: TaskUpdate, ending: Ending | None = None) -> bool:
        """Take over a state; False for one that is older than the latest, or follows the end."""
        if self.ending is not None or is_older(update, self.update):
            return False
        if update != self.update or ending is not None:
            self.update = update
            self.ending = ending
            self.changes += 1
            for unread in self.queues:
                unread.append(update)
            self.wake()
        return True

    def wake(self) -> None:
        """Tell all waiters to look again."""
        for waiter in self.waiters:
            waiter.set()


def is_older(update: TaskUpdate, than: TaskUpdate | None) -> bool:
    """True if a state is from before another one: a push may overtake the answer to a poll."""
    if than is None or update.updated is None or than.updated is None or update.updated == than.updated:
        return False
    try:
        return datetime.fromisoformat(update.updated) < datetime.fromisoformat(than.updated)
    except (TypeError, ValueError):
        # No times that can be compared: what comes later is newer.
        return False


def read_task(kind: type[S], raw: object, id: str) -> S:
    """The state of the task with this id, of one generation; raises `InvalidAnswer` for anything else."""
    try:
        task = load(kind, raw)
    except msgspec.ValidationError as problem:
        raise InvalidAnswer(f"The state of the task cannot be read: {problem}") from None
    if task.task_id != id:
        raise InvalidAnswer("The server answered with the state of another task than the one that was asked for")
    return task


def as_update(task: Task | ExtensionTask) -> TaskUpdate:
    """The state of a task, of either generation, for its caller."""
    milliseconds = task.ttl_ms if isinstance(task, ExtensionTask) else task.ttl
    return TaskUpdate(
        status=task.status,
        message=task.status_message,
        created=task.created_at,
        updated=task.last_updated_at,
        ttl=None if milliseconds is None else milliseconds / 1000,
    )
