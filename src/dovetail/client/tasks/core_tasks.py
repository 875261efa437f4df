"""Tasks in core (2025-11-25): polled, or told by notifications; `tasks/result` waits, and carries their questions."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from dovetail.client.retry_policy import is_temporary
from dovetail.client.session import ClientSession, NotificationCallback
from dovetail.protocol.deadline import NEVER
from dovetail.protocol.errors import (
    ConnectionLost,
    DovetailError,
    InvalidAnswer,
    OutcomeUnknown,
    RemoteError,
    TaskCancelled,
    TaskNotFound,
)
from dovetail.types.tasks import Task as TaskFields
from dovetail.types.tasks import TaskResult

from .polling import poll_pause
from .services import TaskServices
from .state import Ending, TaskState, TaskUpdate, as_update, read_task

_STATUS = "notifications/tasks/status"


class CoreTaskDriver:
    """Follows one task of 2025-11-25. Its questions are ordinary requests of the server, which the session serves."""

    def __init__(self, services: TaskServices, id: str, interval_ms: int | None = None) -> None:
        self._services = services
        self._id = id
        self._interval_ms = interval_ms
        self._changed = asyncio.Event()
        self._changes = -1
        self._changed_at = 0.0
        """The number of changes that are known, and the time of the last one."""
        self._session: ClientSession | None = None
        self._listener: NotificationCallback | None = None

    @property
    def id(self) -> str:
        """The id at the server."""
        return self._id

    async def refresh(self, state: TaskState) -> None:
        """Send `tasks/get` once."""
        self._publish(state, await self._get())

    async def cancel(self, state: TaskState) -> None:
        """Send `tasks/cancel`, which is refused for a task that has ended."""
        try:
            raw = await self._services.send("tasks/cancel", {"taskId": self._id})
        except TaskNotFound:
            self._publish(state, await self._get())
            if state.update is not None and not state.update.is_ended:
                raise
        else:
            self._publish(state, read_task(TaskResult, raw, self._id))

    async def follow(self, state: TaskState) -> None:
        """Publish each change until the task has ended, and wait for its result from its first question on."""
        result: asyncio.Task[Ending | None] | None = None
        try:
            await self._poll(state)
            while state.ending is None and (update := state.update) is not None:
                if result is None and update.status != "working":
                    result = asyncio.create_task(self._result())
                    result.add_done_callback(lambda _: self._changed.set())
                is_due = await self._wait(state, update, result)
                if result is not None and result.done():
                    if (ending := result.result()) is not None:
                        await self._end(state, ending)
                        return
                    result = None
                    await asyncio.sleep(poll_pause(self._interval_ms, 0))
                    is_due = True
                if is_due:
                    await self._poll(state)
        finally:
            self._detach()
            if result is not None:
                result.cancel()
                await asyncio.gather(result, return_exceptions=True)

    async def _poll(self, state: TaskState) -> None:
        """Ask for the state, and listen for notifications on the present connection."""
        session = self._services.supervisor().session
        if self._session is not session:
            self._detach()
            self._session, self._listener = session, self._make_listener(state)
            session.notification_callbacks.add(self._listener)
        self._publish(state, await self._get())

    def _detach(self) -> None:
        if self._session is not None and self._listener is not None:
            self._session.notification_callbacks.discard(self._listener)
        self._session = None

    async def _end(self, state: TaskState, ending: Ending) -> None:
        """Publish the end, with the status that it has at the server."""
        if state.update is None or not state.update.is_ended:
            with contextlib.suppress(DovetailError):
                self._publish(state, await self._get())
        update = state.update
        if update is None or not update.is_ended:
            # The server does not say how it ended, perhaps because it keeps the task no longer.
            update = TaskUpdate(status="completed" if ending.error is None else "failed")
        state.publish(update, ending)

    async def _get(self) -> TaskFields:
        return read_task(TaskResult, await self._services.send("tasks/get", {"taskId": self._id}), self._id)

    async def _result(self) -> Ending | None:
        """The end of the task; None if the connection was interrupted before."""
        try:
            return Ending(await self._services.request("tasks/result", {"taskId": self._id}, timeout=float("inf")))
        except RemoteError as problem:
            if problem.status is not None and is_temporary(problem):
                return None
            return Ending(error=problem)
        except OutcomeUnknown as problem:
            # The server says so of the task, if that has failed; otherwise of this request, whose process has ended.
            return Ending(error=problem) if problem.is_remote and await self._has_failed() else None
        except ConnectionLost:
            return None

    async def _has_failed(self) -> bool:
        try:
            return (await self._get()).status == "failed"
        except DovetailError:
            return False

    async def _wait(self, state: TaskState, update: TaskUpdate, result: asyncio.Task[Ending | None] | None) -> bool:
        """Wait for the result, another status, or until a poll is due, which is True."""
        loop = asyncio.get_running_loop()
        polled = loop.time()
        while state.ending is None and not (result is not None and result.done()):
            if state.changes != self._changes:
                self._changes, self._changed_at = state.changes, loop.time()
            if state.update is not None and state.update.status != update.status:
                return False
            # The result of a task that has ended is on its way.
            pause = NEVER if update.is_ended else poll_pause(self._interval_ms, loop.time() - self._changed_at)
            if polled + pause <= loop.time():
                return True
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(None if pause == NEVER else polled + pause):
                    await self._changed.wait()
        return False

    def _make_listener(self, state: TaskState) -> NotificationCallback:
        def notified(method: str, params: dict[str, Any]) -> None:
            if method == _STATUS and params.get("taskId") == self._id:
                # One that cannot be read is of no account: polls go on.
                with contextlib.suppress(InvalidAnswer):
                    self._publish(state, read_task(TaskResult, params, self._id))
                self._changed.set()

        return notified

    def _publish(self, state: TaskState, task: TaskFields) -> None:
        self._interval_ms = task.poll_interval
        update = as_update(task)
        cancelled = TaskCancelled(update.message or "The task was cancelled")
        state.publish(update, Ending(error=cancelled) if update.status == "cancelled" else None)
