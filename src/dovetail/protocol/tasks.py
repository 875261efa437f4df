"""Tasks: the statuses of a task and what changes them, its stored record, and its fields on the wire.

Two generations share the names of their methods and differ in everything else: tasks in core (2025-11-25
basic/utilities/tasks) and the extension `io.modelcontextprotocol/tasks` (2026-07-28). A record belongs to neither; it
is written in the shape that the revision of a request has.
"""

from __future__ import annotations

import enum
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import msgspec

from dovetail.types.capabilities import ClientCapabilities, Implementation
from dovetail.types.tasks import RELATED_TASK, TaskStatus

from .errors import INTERNAL_ERROR, INVALID_PARAMS, ProtocolError
from .mrtr import JournalEntry

POLL_SECONDS = 1.0
"""The interval between polls that clients are asked to respect."""

TTL_SECONDS = 86_400.0
"""Seconds for which a task is kept after its last change, unless its author or client says otherwise."""

MAX_TTL_SECONDS = 30 * 86_400.0
"""The longest time for which a task is kept after its last change."""

WORKING_SECONDS = 60.0
"""The least time for which a task that works is kept after its last change; the process that runs it renews it."""

MAX_RECORD = 4 * 1024 * 1024
"""The longest record in bytes: arguments, answers, step outcomes and result together."""


State = TaskStatus
"""The states are the words of the wire, and no enum of their own."""


class Event(enum.Enum):
    """The events that change the status of a task."""

    ASKED = "the handler waits for answers"
    ANSWERED = "an answer arrives, and the handler can go on"
    RETURNED = "the handler returns a result, perhaps with isError"
    RAISED = "the request ends in a JSON-RPC error"
    CANCELLED = "the client cancels the task"


TRANSITIONS: dict[tuple[TaskStatus, Event], TaskStatus] = {
    ("working", Event.ASKED): "input_required",
    ("working", Event.RETURNED): "completed",
    ("working", Event.RAISED): "failed",
    ("working", Event.CANCELLED): "cancelled",
    # Further questions while others are open, and an answer to one of several.
    ("input_required", Event.ASKED): "input_required",
    ("input_required", Event.ANSWERED): "working",
    # A handler may stop waiting by itself, with a timeout of its own.
    ("input_required", Event.RETURNED): "completed",
    ("input_required", Event.RAISED): "failed",
    ("input_required", Event.CANCELLED): "cancelled",
}
"""Statuses that begin nothing here are terminal: a task that has ended never changes again."""

TERMINAL: frozenset[TaskStatus] = frozenset({"completed", "failed", "cancelled"})


class TaskError(msgspec.Struct, frozen=True):
    """The JSON-RPC error that a task ended in."""

    code: int
    message: str
    data: Any = None


class TaskQuestion(msgspec.Struct, frozen=True):
    """An open input request of a task: its method, its params on the wire, and the digest of both."""

    method: str
    params: dict[str, Any] | None
    digest: str


class TaskRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything about a task, as it is stored. It holds no credentials, but whose task it is."""

    id: str
    tool: str
    arguments: dict[str, Any]
    revision: str
    created: float
    updated: float
    ttl: float = TTL_SECONDS
    """Seconds for which the task is kept after `updated`."""
    status: TaskStatus = "working"
    message: str | None = None
    version: int = 0
    """Grows with every change of the status, the message or the questions."""
    principal: str | None = None
    scopes: list[str] | None = None
    caller: dict[str, Any] | None = None
    """The part of the caller, such as its groups, that the server needs when it runs the task after the request."""
    client: Implementation | None = None
    capabilities: ClientCapabilities = msgspec.field(default_factory=ClientCapabilities)
    meta: dict[str, Any] = {}
    """The `_meta` of the request that created the task."""
    resume: bool = False
    """The handler may be begun again, from its journal, if the process that runs it dies."""
    max_tasks: int = 0
    """The number of tasks of the tool that may be open at once; 0 if there is no such limit."""
    limited_as: str = ""
    """The client that limits count the task for: its principal, or its address."""
    namespace: str = ""
    """That of the server that the task was created at: only servers with the same one show it and run it."""
    worker: str = ""
    """The process that runs the handler; empty while none does."""
    keeper: str = ""
    """The process where the handler waits for answers in memory; empty if it has to be begun from its journal."""
    run: int = 0
    """The number of times that the handler was begun; a process that holds an older run may write nothing."""
    journal: dict[str, JournalEntry] = {}
    questions: dict[str, TaskQuestion] = {}
    by_hand: bool = False
    """The handler returned its questions (`InputRequired`), and begins again when all are answered."""
    state: str | None = None
    """The state of such a handler, which it gets back."""
    heard: dict[str, tuple[str, Any]] = {}
    """The answers for such a handler, by key: method and answer."""
    result: dict[str, Any] | None = None
    error: TaskError | None = None
    listed_until: float = 0.0
    """The time until which groups in the store have the task as one that has not ended."""

    @property
    def is_ended(self) -> bool:
        """True if the status is terminal."""
        return self.status in TERMINAL

    @property
    def expires(self) -> float:
        """The time until which clients can count on the task."""
        return self.updated + self.ttl

    @property
    def kept_until(self) -> float:
        """The time until which the task is kept: one that works must not expire before it is renewed."""
        return self.updated + (max(self.ttl, WORKING_SECONDS) if self.status == "working" else self.ttl)

    def change(self, event: Event, now: float, message: str | None = None, **fields: Any) -> TaskRecord | None:
        """The record after an event; None if the status does not allow it, because the task has ended."""
        status = TRANSITIONS.get((self.status, event))
        if status is None:
            return None
        if status in TERMINAL:
            # What only a running task needs is not kept: answers may be confidential.
            unneeded: dict[str, Any] = {"journal": {}, "questions": {}, "heard": {}, "state": None, "caller": None}
            fields = {**unneeded, "worker": "", "keeper": "", **fields}
        return self.replace(now, status=status, message=message, version=self.version + 1, **fields)

    def replace(self, now: float, **fields: Any) -> TaskRecord:
        """The record with other fields, changed now; clocks that differ never let `updated` go back."""
        return msgspec.structs.replace(self, updated=max(now, self.updated), **fields)


def extension_fields(record: TaskRecord, *, detailed: bool) -> dict[str, Any]:
    """A task as the extension writes it, with what its status calls for if it is to be `detailed`."""
    fields: dict[str, Any] = {
        "taskId": record.id,
        "status": record.status,
        **_common(record),
        "ttlMs": _ttl_ms(record),
        "pollIntervalMs": round(POLL_SECONDS * 1000),
    }
    if not detailed:
        return fields
    if record.status == "input_required":
        fields["inputRequests"] = {key: question_fields(question) for key, question in record.questions.items()}
    elif record.status == "completed":
        fields["result"] = {"resultType": "complete", **(record.result or {})}
    elif record.status == "failed":
        fields["error"] = error_fields(record)
    return fields


def core_fields(record: TaskRecord) -> dict[str, Any]:
    """A task as 2025-11-25 writes it: there a result with `isError` is a failure too."""
    is_error = record.status == "completed" and bool((record.result or {}).get("isError"))
    return {
        "taskId": record.id,
        "status": "failed" if is_error else record.status,
        **_common(record),
        "ttl": _ttl_ms(record),
        "pollInterval": round(POLL_SECONDS * 1000),
    }


def question_fields(question: TaskQuestion) -> dict[str, Any]:
    """An input request as mrtr writes it."""
    fields: dict[str, Any] = {"method": question.method}
    if question.params is not None:
        fields["params"] = question.params
    return fields


def error_fields(record: TaskRecord) -> dict[str, Any]:
    """The error of a task that failed."""
    error = record.error or TaskError(INTERNAL_ERROR, "The task failed")
    fields: dict[str, Any] = {"code": error.code, "message": error.message}
    if error.data is not None:
        fields["data"] = error.data
    return fields


def related(id: str) -> dict[str, Any]:
    """The `_meta` entry that relates a message to a task."""
    return {RELATED_TASK: {"taskId": id}}


def task_not_found() -> ProtocolError:
    """The error for every id that gives no access: one text for unknown, expired and foreign ones."""
    return ProtocolError(INVALID_PARAMS, "Task not found: there is none with this id, or it has expired")


def timestamp(seconds: float) -> str:
    """A time in ISO 8601, with milliseconds."""
    whole, thousandths = divmod(int(seconds * 1000), 1000)
    return f"{_whole_second(whole)}.{thousandths:03}Z"


@lru_cache(maxsize=256)
def _whole_second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _common(record: TaskRecord) -> dict[str, Any]:
    fields: dict[str, Any] = {"createdAt": timestamp(record.created), "lastUpdatedAt": timestamp(record.updated)}
    if record.message is not None:
        fields["statusMessage"] = record.message
    return fields


def _ttl_ms(record: TaskRecord) -> int:
    # On the wire the time counts from the creation of the task, and may grow.
    return round((record.expires - record.created) * 1000)
