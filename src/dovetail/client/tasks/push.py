"""Pushed changes of a task: `subscriptions/listen` with its id (2026-07-28 ext-tasks, "Task Status Notifications")."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

from dovetail.client.subscriptions import keep_listening
from dovetail.protocol.envelope import SUBSCRIPTION_ID, meta_of
from dovetail.protocol.errors import DovetailError
from dovetail.wire.jsonrpc import Id

from .services import MAX_TASK_SUBSCRIPTIONS, TaskServices

_ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
_STATUS = "notifications/tasks"

OnPushed = Callable[[dict[str, Any]], None]
OnSubscribed = Callable[[bool], None]
"""Called with True when the server begins to push changes, and with False when it ends."""


class TaskSubscription:
    """The subscription to one task; the server may refuse it, and too many of one client would block requests."""

    def __init__(self, services: TaskServices, task: str, on_pushed: OnPushed, on_subscribed: OnSubscribed) -> None:
        self._services = services
        self._task = task
        self._on_pushed = on_pushed
        self._on_subscribed = on_subscribed
        self._supervisor = services.supervisor()
        self.id: Id = self._supervisor.connection.pending.next_id()
        self.acknowledged = self.was_acknowledged = False
        self.is_accepted = False
        """True while the server pushes changes of this task."""
        self._listening: asyncio.Task[None] | None = None
        meta = services.meta()
        if meta is not None and services.subscriptions < MAX_TASK_SUBSCRIPTIONS:
            services.subscriptions += 1
            self._supervisor.session.notification_callbacks.add(self.notified)
            self._listening = asyncio.create_task(self._listen(meta))

    @property
    def is_outdated(self) -> bool:
        """True if the client has another connection by now."""
        return self._services.supervisor() is not self._supervisor

    async def close(self) -> None:
        """End the subscription."""
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.gather(self._listening, return_exceptions=True)

    def renew(self, id: Id) -> None:
        """Go on with the subscription with another id, which follows one that has ended."""
        self.id, self.acknowledged, self.is_accepted = id, False, False
        self._on_subscribed(False)

    def notified(self, method: str, params: dict[str, Any]) -> None:
        """Pass on the states of this task."""
        if method not in (_STATUS, _ACKNOWLEDGED) or (meta_of(params) or {}).get(SUBSCRIPTION_ID) != self.id:
            return
        if method == _STATUS:
            if params.get("taskId") == self._task:
                self._on_pushed(params)
            return
        accepted = params.get("notifications")
        ids = cast("dict[str, Any]", accepted).get("taskIds") if isinstance(accepted, dict) else None
        self.acknowledged = self.was_acknowledged = True
        self.is_accepted = isinstance(ids, list) and self._task in ids
        if self.is_accepted:
            self._on_subscribed(True)
        elif self._listening is not None:
            self._listening.cancel()

    async def _listen(self, meta: dict[str, Any]) -> None:
        try:
            await keep_listening(self._supervisor, meta, self, {"taskIds": [self._task]})
        except DovetailError:
            pass  # the task is polled instead
        finally:
            self.is_accepted = False
            self._on_subscribed(False)
            self._services.subscriptions -= 1
            self._supervisor.session.notification_callbacks.discard(self.notified)
