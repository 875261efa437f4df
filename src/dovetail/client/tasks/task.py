"""`Task`: the handle of a call whose result is fetched later."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from dovetail.client.listing import load_result
from dovetail.protocol.deadline import NEVER, Deadline, Timeouts
from dovetail.protocol.errors import ConnectionLost, InvalidAnswer, LocalError, TaskNotFound, Timeout
from dovetail.protocol.revisions.revision import Revision
from dovetail.runtime.pending_requests import OnProgress
from dovetail.types.tasks import TaskStatus
from dovetail.types.tools import CallToolResult

from .driver import TaskDriver
from .reference import make_reference
from .services import TaskServices
from .state import Ending, TaskState, TaskUpdate

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    T = TypeVar("T", default=Any)
else:
    T = TypeVar("T")

MAX_UNREAD_UPDATES = 100
"""Updates of a task that wait for a slow reader; beyond it the oldest are dropped."""

CANCEL_SECONDS = 2.0
"""Seconds for which an abandoned call waits for the server to confirm that its task is cancelled."""

logger = logging.getLogger("dovetail")


class Task(Generic[T]):
    """A call that runs at the server, or in this process where the server or the tool has no tasks.

    It is followed, and its questions are answered, while something waits for its result or iterates over its updates.
    A wait that is cancelled, or times out, does not cancel the task; `cancel` does.
    """

    def __init__(
        self, services: TaskServices, driver: TaskDriver, tool: str, state: TaskState | None = None, returns: Any = None
    ) -> None:
        """Made by `Client.start`, `Client.task` and `Client.tasks`."""
        self._services = services
        self._driver = driver
        self._state = state or TaskState()
        self._returns = returns
        self.tool = tool
        """The name of the tool; empty if it is not known."""
        self._followers = 0
        self._following: asyncio.Task[None] | None = None
        self._stopping: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        # Without the id, which may be all that is needed for access to the task.
        return f"<Task {self.tool!r} {self.status or 'unknown'}>"

    @property
    def id(self) -> str | None:
        """The id at the server; None for a call that runs in this process.

        Keep it secret: at servers without authorization, whoever has it has access to the task.
        """
        return self._driver.id

    @property
    def update(self) -> TaskUpdate | None:
        """The latest state that is known, with its times; None before the server was asked for the first time."""
        return self._state.update

    @property
    def status(self) -> TaskStatus | None:
        """The latest status that is known; None before the server was asked for the first time."""
        return None if self._state.update is None else self._state.update.status

    @property
    def message(self) -> str | None:
        """The latest message that is known."""
        return None if self._state.update is None else self._state.update.message

    @property
    def reference(self) -> str:
        """The task as text, for `client.task(reference)` in another process or at a later time; as secret as the id."""
        id = self._driver.id
        if id is None:
            raise LocalError(
                f"The call of {self.tool!r} is no task at the server, and ends with this process: it has no reference"
            )
        return make_reference(id, self.tool, self._services.supervisor().agreement.revision.name)

    async def refresh(self) -> TaskUpdate:
        """Ask the server for the present state, once; questions are left open."""
        if self._state.ending is None:
            await self._driver.refresh(self._state)
        assert self._state.update is not None
        return self._state.update

    async def cancel(self) -> None:
        """Cancel the task; the server decides if and when it stops. A task that has ended stays as it is."""
        if self._state.ending is None:
            await self._driver.cancel(self._state)

    async def result(self, *, timeout: float | None = None, check: bool = True) -> CallToolResult[T]:
        """Wait for the result, as `Client.call` returns it.

        Raises `ToolFailed` for a result with `isError`, unless `check` is false; the error of a task that failed;
        `TaskCancelled`; and `TaskNotFound` if the server does not have the task any more.

        Options:
            timeout: Seconds to wait; None for ever. A change of the task, and the time for answers, extend it.
            check: If false, a result with `isError` is returned.
        """
        return await self.conclude(await self.wait(Timeouts(timeout, self._services.max_timeout)), check=check)

    def __aiter__(self) -> AsyncIterator[TaskUpdate]:
        """Each change of status or message, the present state first; it ends with the task."""
        return self.updates()

    async def wait(self, timeouts: Timeouts, progress: OnProgress | None = None) -> Ending:
        """Wait for the end; `progress` is called with each new message."""
        state, loop = self._state, asyncio.get_running_loop()
        deadline, changes, messages = timeouts.deadline(loop.time()), state.changes, 0
        message = None if state.update is None else state.update.message
        async with self._followed() as (following, woken):
            while state.ending is None:
                if following.done():
                    following.result()
                    raise InvalidAnswer("The task is followed no longer, and has not ended")
                deadline = self._count(deadline, loop.time())
                if deadline.due(loop.time()):
                    raise Timeout(f"Tool {self.tool!r} has not ended within {deadline.exceeded_text}")
                woken.clear()
                with contextlib.suppress(TimeoutError):
                    running = deadline.paused_at is None and deadline.at != NEVER
                    async with asyncio.timeout_at(deadline.at if running else None):
                        await woken.wait()
                if state.changes != changes:
                    changes, deadline = state.changes, deadline.renewed(loop.time())
                if state.update is not None and state.update.message not in (None, message):
                    message, messages = state.update.message, messages + 1
                    if progress is not None:
                        await _report(progress, messages, message)
            return state.ending

    async def conclude(self, ending: Ending, *, check: bool) -> CallToolResult[T]:
        """The result for the caller, or the exception that stands for it."""
        if ending.error is not None:
            raise ending.error
        result = ending.result or load_tool_result(self._services.supervisor().agreement.revision, ending.raw)
        return await self._services.complete(self.tool, result, self._returns, check=check)

    async def abandon(self, problem: BaseException) -> None:
        """Cancel the task of a call that ends with an error, as far as that is possible in a short time."""
        if self._state.ending is not None or isinstance(problem, (ConnectionLost, TaskNotFound)):
            return
        try:
            async with asyncio.timeout(CANCEL_SECONDS):
                await self._driver.cancel(self._state)
        except Exception as failed:
            logger.warning("The task of %r could not be cancelled: %s", self.tool, failed or "no answer in time")

    def _count(self, deadline: Deadline, now: float) -> Deadline:
        """The deadline, which does not move while questions are answered."""
        asking = self._state.open_questions or self._services.supervisor().connection.pending.paused
        return deadline.paused(now) if asking else deadline.resumed(now)

    @contextlib.asynccontextmanager
    async def _followed(self) -> AsyncGenerator[tuple[asyncio.Task[None], asyncio.Event]]:
        """Follow the task, once for all that wait for it."""
        while self._stopping is not None:
            await asyncio.wait({self._stopping})
        woken = asyncio.Event()
        self._state.waiters.add(woken)
        self._followers += 1
        following = self._following
        if following is None or following.done():
            following = self._following = asyncio.create_task(self._driver.follow(self._state))
            following.add_done_callback(self._followed_to_end)
        try:
            yield following, woken
        finally:
            self._state.waiters.discard(woken)
            self._followers -= 1
            if not self._followers and not following.done():
                self._stopping = following
                following.add_done_callback(self._stopped)
                following.cancel()
                await asyncio.wait({following})

    def _stopped(self, following: asyncio.Task[None]) -> None:
        self._stopping = None

    def _followed_to_end(self, following: asyncio.Task[None]) -> None:
        if not following.cancelled():
            following.exception()  # each waiter retrieves it as well
        self._state.wake()

    async def updates(self) -> AsyncGenerator[TaskUpdate]:
        """Each change of status or message, the present state first; it ends with the task."""
        state = self._state
        unread: deque[TaskUpdate] = deque([] if state.update is None else [state.update], MAX_UNREAD_UPDATES)
        state.queues.append(unread)
        shown: tuple[object, ...] | None = None
        try:
            async with self._followed() as (following, woken):
                while True:
                    while unread:
                        update = unread.popleft()
                        if (update.status, update.message) != shown:
                            shown = update.status, update.message
                            yield update
                    if state.ending is not None:
                        return
                    if following.done():
                        following.result()
                        return
                    woken.clear()
                    await woken.wait()
        finally:
            state.queues = [queue for queue in state.queues if queue is not unread]


def load_tool_result(revision: Revision, raw: object) -> CallToolResult[Any]:
    """The result of a task; raises `InvalidAnswer` for one that no tool can have."""
    result = load_result(revision, "tools/call", raw)
    if not isinstance(result, CallToolResult):
        raise InvalidAnswer(f"The task ended with {type(result).__name__}, which is no result of a tool")
    return cast("CallToolResult[Any]", result)


async def _report(progress: OnProgress, number: int, message: str | None) -> None:
    """Call the caller's function, whose errors are logged as those of other progress are."""
    try:
        outcome = progress(number, None, message)
        if outcome is not None:
            await outcome
    except Exception:
        logger.exception("A progress callback failed")
