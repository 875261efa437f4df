"""Services of a client for its tasks: requests, handlers, and the results of calls."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol

import msgspec

from dovetail.client.mrtr import MAX_ROUNDS
from dovetail.client.server_requests import RequestHandlers
from dovetail.client.subscriptions import pause_after
from dovetail.client.supervisor import Supervisor
from dovetail.protocol.errors import INVALID_PARAMS, DovetailError, RemoteError, TaskNotFound
from dovetail.transports.reconnection import Reconnection
from dovetail.types.tools import CallToolResult

MAX_TASK_SUBSCRIPTIONS = 16
"""Tasks of one client whose changes are pushed; further ones are polled, so that subscriptions block no requests."""


class CompleteCall(Protocol):
    """The last steps of a call: its failure as an exception, the check of its data, and their type."""

    def __call__(
        self, name: str, result: CallToolResult[Any], returns: Any, *, check: bool
    ) -> Awaitable[CallToolResult[Any]]:
        """The result for the caller."""
        ...


class SendTaskRequest(Protocol):
    """Sends a request about a task."""

    def __call__(self, method: str, params: dict[str, Any], /, *, timeout: float | None = None) -> Awaitable[Any]:
        """The result as JSON values."""
        ...


class TaskServices(msgspec.Struct, kw_only=True):
    """The parts of a client that its tasks use."""

    request: SendTaskRequest
    supervisor: Callable[[], Supervisor]
    """The present connection; raises if the client is not connected."""
    meta: Callable[[], dict[str, Any] | None]
    complete: CompleteCall
    handlers: RequestHandlers
    restarts: bool
    """A server that has ended is restarted by the next request."""
    max_rounds: int = MAX_ROUNDS
    max_timeout: float | None = None
    subscriptions: int = 0
    background: set[asyncio.Task[Any]] = msgspec.field(default_factory=set[asyncio.Task[Any]])
    """Calls that run in this process, for servers and tools without tasks."""
    is_closed: bool = False

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run a call in the background until it ends or the client is closed."""
        task = asyncio.create_task(work)
        self.background.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self.background.discard(task)
        if not task.cancelled():
            task.exception()  # retrieved, since perhaps nobody asks for it

    async def close(self) -> None:
        """Cancel the calls in the background."""
        self.is_closed = True
        for task in (running := list(self.background)):
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def send(self, method: str, params: dict[str, Any]) -> Any:
        """Send a request about a task, again for a while if the server cannot be reached or is overloaded."""
        reconnection = Reconnection()
        while True:
            try:
                return await self.request(method, params)
            except DovetailError as problem:
                if isinstance(problem, RemoteError) and problem.code == INVALID_PARAMS:
                    # Our params are valid, so that the id is unknown (ext-tasks, "Protocol Errors").
                    raise TaskNotFound(problem.code, problem.message, problem.data) from problem
                if not self.restarts and self.supervisor().connection.gone is not None:
                    raise
                pause = pause_after(problem, reconnection)
            await asyncio.sleep(pause)
