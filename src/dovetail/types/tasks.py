"""Tasks of revision 2025-11-25: requests whose result is fetched later."""

from typing import Literal

import msgspec

from .serialization import Value

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
