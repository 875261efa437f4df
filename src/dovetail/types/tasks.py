"""Tasks as the 2025-11-25 revision has them: a request answered later."""

from typing import Literal

import msgspec

from .serialization import Value

TaskStatus = Literal["working", "input_required", "completed", "failed", "cancelled"]


class TaskMetadata(Value):
    """The wish to have a request run as a task, kept for `ttl` milliseconds."""

    ttl: int | None = None


class Task(Value):
    """Where a task stands; times are ISO 8601, durations milliseconds, no `ttl` means for ever."""

    task_id: str
    status: TaskStatus
    created_at: str
    last_updated_at: str
    ttl: int | None
    status_message: str | None = None
    poll_interval: int | None = None


class TaskResult(Task):
    """The answer to `tasks/get` and `tasks/cancel`."""


class TaskStatusParams(Task):
    """Params of `notifications/tasks/status`."""


class TaskParams(Value):
    """Params of `tasks/get`, `tasks/result` and `tasks/cancel`."""

    task_id: str


class TaskPayload(Value):
    """The answer to `tasks/result`: the result of the request itself, whose fields stand in `extra`."""


class CreateTaskResult(Value):
    """The first answer to a request that runs as a task."""

    task: Task


class ListTasksResult(Value):
    """One page of tasks."""

    tasks: list[Task] = msgspec.field(default_factory=list[Task])
    next_cursor: str | None = None
