"""Tasks that a server asks its client for (2025-11-25): sampling and elicitation whose results it fetches later."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable
from typing import Any

from dovetail.protocol.errors import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, ProtocolError
from dovetail.protocol.tasks import related, task_not_found, timestamp
from dovetail.runtime.call import Call
from dovetail.runtime.rate_limit import TOO_MANY_REQUESTS
from dovetail.runtime.serve import Work, as_protocol_error
from dovetail.types.tasks import TaskMetadata, TaskStatus
from dovetail.wire import codec

MAX_RECEIVED_TASKS = 100
"""Tasks of one server that a client keeps; the oldest that has ended makes room for another."""

MAX_RECEIVED_TTL = 3600.0
"""Seconds for which a client keeps a task, at most and by default."""

_POLL_MS = 1000

Answer = Callable[[], Awaitable[dict[str, Any]]]


class _ReceivedTask:
    """A request of the server that runs as a task."""

    def __init__(self, ttl: float) -> None:
        self.id = secrets.token_urlsafe(16)
        self.ttl = ttl
        self.created = self.updated = time.time()
        self.status: TaskStatus = "working"
        self.message: str | None = None
        self.result: dict[str, Any] | None = None
        self.error: ProtocolError | None = None
        self.ended = asyncio.Event()
        self.running: asyncio.Task[None] | None = None
        self.timer: asyncio.TimerHandle | None = None

    def stop(self) -> None:
        """Stop the work and the timer."""
        if self.running is not None:
            self.running.cancel()
        if self.timer is not None:
            self.timer.cancel()

    def end(self, status: TaskStatus, message: str | None = None) -> None:
        self.status, self.message, self.updated = status, message, max(time.time(), self.updated)
        self.ended.set()

    def fields(self) -> dict[str, Any]:
        fields: dict[str, Any] = {
            "taskId": self.id,
            "status": self.status,
            "createdAt": timestamp(self.created),
            "lastUpdatedAt": timestamp(self.updated),
            "ttl": round(self.ttl * 1000),
            "pollInterval": _POLL_MS,
        }
        return fields if self.message is None else {**fields, "statusMessage": self.message}


class ReceivedTasks:
    """The tasks of one connection, which end with it."""

    def __init__(self, notify: Callable[[str, dict[str, Any]], None]) -> None:
        self._notify = notify
        self._tasks: dict[str, _ReceivedTask] = {}

    def create(self, call: Call, answer: Answer, wanted: TaskMetadata) -> bytes:
        """Begin to answer a request in the background; its first result."""
        if len(self._tasks) >= MAX_RECEIVED_TASKS and not self._make_room():
            raise ProtocolError(TOO_MANY_REQUESTS, f"Too many tasks are running; at most {MAX_RECEIVED_TASKS} may")
        ttl = MAX_RECEIVED_TTL if wanted.ttl is None else min(max(wanted.ttl / 1000, 0.0), MAX_RECEIVED_TTL)
        task = _ReceivedTask(ttl)
        self._tasks[task.id] = task
        task.running = asyncio.create_task(self._run(task, call, answer))
        task.timer = asyncio.get_running_loop().call_later(ttl, self._expire, task)
        return codec.encode({"task": task.fields()})

    def dispatch(self, call: Call, params: dict[str, Any]) -> bytes | Work:
        """Serve a request about tasks."""
        method = call.request.method
        if method == "tasks/list":
            if params.get("cursor") is not None:
                raise ProtocolError(INVALID_PARAMS, "There is no such page: all tasks are on the first one")
            return codec.encode({"tasks": [task.fields() for task in self._tasks.values()]})
        task = self._find(params)
        if method == "tasks/get":
            return codec.encode(task.fields())
        if method == "tasks/cancel":
            return self._cancel(task)
        if method == "tasks/result":
            return lambda: self._result(task)
        raise ProtocolError(METHOD_NOT_FOUND, f"Method not found: {method}")

    def close(self) -> None:
        """Stop all tasks: the server is gone."""
        for task in self._tasks.values():
            task.stop()
        self._tasks.clear()

    async def _run(self, task: _ReceivedTask, call: Call, answer: Answer) -> None:
        try:
            task.result = await answer()
        except asyncio.CancelledError:
            if not task.ended.is_set():
                task.end("cancelled")
            raise
        except Exception as problem:
            task.error = as_protocol_error(call, problem)
            task.end("failed", task.error.message)
        else:
            if not task.ended.is_set():
                task.end("completed")
        if self._tasks.get(task.id) is task:
            self._notify("notifications/tasks/status", task.fields())

    def _cancel(self, task: _ReceivedTask) -> bytes:
        if task.ended.is_set():
            raise ProtocolError(INVALID_PARAMS, f"The task cannot be cancelled: it is {task.status}")
        task.end("cancelled", "The task was cancelled")
        if task.running is not None:
            task.running.cancel()
        return codec.encode(task.fields())

    async def _result(self, task: _ReceivedTask) -> bytes:
        await task.ended.wait()
        if task.error is not None:
            raise task.error
        if task.result is None or task.status == "cancelled":
            raise ProtocolError(INTERNAL_ERROR, "The task was cancelled")
        return codec.encode({**task.result, "_meta": {**(task.result.get("_meta") or {}), **related(task.id)}})

    def _find(self, params: dict[str, Any]) -> _ReceivedTask:
        id = params.get("taskId")
        task = self._tasks.get(id) if isinstance(id, str) else None
        if task is None:
            raise task_not_found()
        return task

    def _make_room(self) -> bool:
        for task in self._tasks.values():
            if task.ended.is_set():
                task.stop()
                del self._tasks[task.id]
                return True
        return False

    def _expire(self, task: _ReceivedTask) -> None:
        if self._tasks.pop(task.id, None) is not None and not task.ended.is_set():
            task.end("cancelled", "The task has expired")
            task.stop()
