"""Tasks: requests whose result is fetched later, as in core (2025-11-25) and as an extension (2026-07-28)."""

from typing import Any, Literal

import msgspec

from .base import Result
from .serialization import Value

TASKS_EXTENSION = "io.modelcontextprotocol/tasks"
"""The extension of 2026-07-28."""

RELATED_TASK = "io.modelcontextprotocol/related-task"
"""Key in the `_meta` of messages that belong to a task (2025-11-25 only)."""

TaskStatus = Literal["working", "input_required", "completed", "failed", "cancelled"]


class TaskMetadata(Value):
    """Makes a request run as a task, whose result is kept for `ttl` milliseconds."""

    ttl: int | None = None


class Task(Value):
    """State of a task. Times are ISO 8601, durations milliseconds; no `ttl` means for ever."""

    task_id: str
    status: TaskStatus
    created_at: str
    last_updated_at: str
    ttl: int | None
    status_message: str | None = None
    poll_interval: int | None = None


class TaskResult(Task):
    """Result of `tasks/get` and `tasks/cancel`."""


class TaskStatusParams(Task):
    """Params of `notifications/tasks/status`."""


class TaskParams(Value):
    """Params of `tasks/get`, `tasks/result` and `tasks/cancel`."""

    task_id: str


class TaskPayload(Value):
    """Result of `tasks/result`: the result of the original request, whose fields are in `extra`."""


class CreateTaskResult(Value):
    """First result of a request that runs as a task."""

    task: Task


class ListTasksResult(Value):
    """One page of tasks."""

    tasks: list[Task] = msgspec.field(default_factory=list[Task])
    next_cursor: str | None = None


class ExtensionTask(Result, kw_only=True):
    """State of a task of the extension; no `ttl_ms` means for ever."""

    task_id: str
    status: TaskStatus
    created_at: str
    last_updated_at: str
    ttl_ms: int | None
    status_message: str | None = None
    poll_interval_ms: int | None = None


class CreatedTask(ExtensionTask):
    """First result of a request that became a task (`resultType` is "task")."""


class DetailedTask(ExtensionTask):
    """Result of `tasks/get`, and params of `notifications/tasks`: the state with what its status calls for.

    The members are plain objects: each input request is one of the mrtr set, and the result is that of the original
    request.
    """

    input_requests: dict[str, Any] | None = None
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
