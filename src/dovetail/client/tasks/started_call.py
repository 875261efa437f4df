"""A call that was started: in the background of this process, until the server makes a task of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

from dovetail.protocol.errors import ConnectionLost, TaskCancelled
from dovetail.types.tools import CallToolResult

from .driver import TaskDriver
from .services import TaskServices
from .state import Ending, TaskState, TaskUpdate

MakeDriver = Callable[[Any], tuple[TaskDriver, TaskUpdate]]
"""The driver and the first state of the task that a call was answered with."""


class StartedCall:
    """Drives a call that may become a task: on some revisions only the server knows."""

    def __init__(
        self, services: TaskServices, call: asyncio.Task[Any], state: TaskState, make_driver: MakeDriver
    ) -> None:
        self._services = services
        self._call = call
        self._state = state
        self._make_driver = make_driver
        self._remote: TaskDriver | None = None
        call.add_done_callback(self._answered)

    @property
    def id(self) -> str | None:
        """The id at the server, once it has made a task of the call."""
        return None if self._remote is None else self._remote.id

    async def refresh(self, state: TaskState) -> None:
        """Ask for the present state once; that of a call in this process is known."""
        if self._remote is not None:
            await self._remote.refresh(state)

    async def follow(self, state: TaskState) -> None:
        """Wait for the answer to the call, and follow the task if it is one."""
        await asyncio.wait({self._call})
        if self._remote is not None:
            await self._remote.follow(state)

    async def cancel(self, state: TaskState) -> None:
        """Cancel the call, or the task that was made of it."""
        self._call.cancel()
        await asyncio.wait({self._call})
        if self._remote is not None:
            await self._remote.cancel(state)

    def _answered(self, call: asyncio.Task[Any]) -> None:
        state = self._state
        if call.cancelled():
            closed = self._services.is_closed
            error = ConnectionLost("the client was closed") if closed else TaskCancelled("The call was cancelled")
            state.publish(TaskUpdate(status="cancelled"), Ending(error=error))
        elif isinstance(problem := call.exception(), Exception):
            state.publish(TaskUpdate(status="failed", message=str(problem)), Ending(error=problem))
        elif isinstance(result := call.result(), CallToolResult):
            state.publish(TaskUpdate(status="completed"), Ending(result=cast("CallToolResult[Any]", result)))
        else:
            self._remote, update = self._make_driver(result)
            state.publish(update)
