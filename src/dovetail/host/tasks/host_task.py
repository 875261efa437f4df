"""`HostTask`: a call of a host that goes on at its server."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any, Literal, TypeAlias

from dovetail.host.servers.supervisor import ChangeSignal
from dovetail.protocol.errors import DovetailError
from dovetail.runtime.pending_requests import OnProgress
from dovetail.types.content import Text
from dovetail.types.tasks import TaskStatus
from dovetail.types.tools import CallToolResult

HostTaskStatus: TypeAlias = TaskStatus | Literal["reattaching", "lost"]
"""A status of the protocol; or its server is not connected, or does not have the task any more."""

_ENDED = ("completed", "failed", "cancelled", "lost")
_MAX_MESSAGE = 500
"""Characters of a status message, which is a server's own words."""
_LONG = 3600.0


class HostTask:
    """A call that goes on at its server, while the host follows it and its questions go to the user."""

    def __init__(self, number: int, server: str, tool: str, cancel: Callable[[HostTask], Awaitable[None]]) -> None:
        """Made by a host."""
        self.number = number
        """Of the host; it is used once."""
        self.server = server
        """The key of its server."""
        self.tool = tool
        """The name of the tool at the server."""
        self.status: HostTaskStatus = "working"
        self.message: str | None = None
        """The latest that the server says of it."""
        self.since = time.time()
        """When it began, or was found again, in seconds since the epoch."""
        self.ended: float | None = None
        """When it ended, in seconds since the epoch."""
        self.in_background = False
        """Nothing waits for its result."""
        self.call: int | None = None
        """The number of the work that waits for it, as `Host.running` has it."""
        self.outcome: CallToolResult | DovetailError | None = None
        """Its result or its error, once it has ended."""
        self.reports: list[OnProgress] = []
        self._cancel = cancel
        self._changed = ChangeSignal()

    def __repr__(self) -> str:
        return f"<HostTask {self.number} {self.server}: {self.tool} {self.status}>"

    @property
    def is_ended(self) -> bool:
        """True if it has a result or an error."""
        return self.outcome is not None

    async def result(self) -> CallToolResult:
        """Wait for the result; raises the error that it ended in. A wait that is cancelled does not cancel the task."""
        while self.outcome is None:
            await self._changed.wait(_LONG)
        if isinstance(self.outcome, DovetailError):
            raise self.outcome
        return self.outcome

    async def changes(self, seconds: float) -> None:
        """Wait until something of it changes, at most so long."""
        await self._changed.wait(seconds)

    async def cancel(self) -> None:
        """Tell the server to cancel it; the server decides if and when it stops. One that has ended stays as it is."""
        if not self.is_ended:
            await self._cancel(self)

    def update(self, status: HostTaskStatus, message: str | None) -> bool:
        """Take over a state; whether it is news."""
        message = None if message is None else message[:_MAX_MESSAGE]
        is_news = (status, message) != (self.status, self.message)
        self.status, self.message = status, message
        self._changed.notify()
        return is_news

    def end(self, outcome: CallToolResult | DovetailError, status: HostTaskStatus) -> None:
        """Take over the result or the error."""
        assert status in _ENDED
        self.outcome, self.status, self.ended = outcome, status, time.time()
        self._changed.notify()


class BackgroundResult(CallToolResult):
    """Stands for the result of a call whose task goes on in the background."""

    task: Any = None
    """The `HostTask`."""


def background_result(task: HostTask) -> BackgroundResult:
    """The text for a model about a call that goes on."""
    text = (
        f"The call has not ended yet and goes on in the background, as task {task.number}. "
        "Do not call the tool again for this. Its result comes with a later message; tell the user that it is running."
    )
    return BackgroundResult(content=[Text(text=text)], task=task)


followed_task: ContextVar[tuple[HostTask, str] | None] = ContextVar("followed_task", default=None)
"""The task on whose behalf a server asks, and the hash of its id."""


def hash_of(id: str) -> str:
    """The hash of a task's id, for the audit log: the id may be all that is needed for access to the task."""
    return hashlib.sha256(id.encode(errors="surrogatepass")).hexdigest()[:16]


async def call_reports(task: HostTask, number: int) -> None:
    """Tell those that wait for a task of its message, as progress."""
    for report in list(task.reports):
        outcome = report(number, None, task.message)
        if asyncio.iscoroutine(outcome) or isinstance(outcome, Awaitable):
            await outcome
