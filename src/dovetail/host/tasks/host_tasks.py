"""Tasks of a host: creating, following, cancelling and finding them again; each step is in the audit log."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from dovetail.host.consent.consent import Consent
from dovetail.host.consent.guarded_access import StartedTask
from dovetail.host.events import HostEvent
from dovetail.host.servers.supervisor import ChangeSignal, ServerSupervisor
from dovetail.policy.actions import Action
from dovetail.policy.audit.log import Decider
from dovetail.protocol.errors import ConnectionLost, DovetailError, LocalError, TaskCancelled, TaskNotFound, Timeout
from dovetail.runtime.thread_pool import ThreadPool
from dovetail.types.tools import CallToolResult

from .host_task import BackgroundResult, HostTask, background_result, call_reports, followed_task, hash_of
from .saved_tasks import SavedTask, SavedTasks, expiry

if TYPE_CHECKING:
    from dovetail.client.tasks.task import Task

MAX_ENDED_TASKS = 50
"""Ended tasks that a host keeps with their results; beyond it the oldest are dropped."""

_CANCEL_SECONDS = 3.0
"""Seconds for which a call that is stopped waits until its server has confirmed that the task is cancelled."""
_LOOK_SECONDS = 60.0
_PAUSE = 0.5
"""Seconds before a task whose connection was lost is looked for again."""

logger = logging.getLogger("dovetail")


class TasksContext(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a host that its tasks use."""

    consent: Consent
    saved_tasks: SavedTasks
    servers: Mapping[str, ServerSupervisor]
    change_signal: ChangeSignal
    thread_pool: ThreadPool
    emit: Callable[[HostEvent], None]


class _Followed(msgspec.Struct, eq=False):
    """A task that is followed, with what finds it again."""

    item: HostTask
    action: Action
    reference: str
    hash: str
    task: Task | None
    """None while its server is not connected."""


class HostTasks:
    """All tasks of a host."""

    def __init__(self, context: TasksContext) -> None:
        self._context = context
        self._numbers = itertools.count(1)
        self._items: dict[int, HostTask] = {}
        self._followed: dict[HostTask, _Followed] = {}
        self._followers: set[asyncio.Task[None]] = set()
        self._is_closing = False

    def all(self) -> list[HostTask]:
        """Running and ended tasks, oldest first."""
        return list(self._items.values())

    async def adopt(self, started: StartedTask, call: int | None, *, in_background: bool) -> HostTask:
        """Follow the task that a call became, and keep it for the next host of this user."""
        task, action = started.task, started.action
        assert task.id is not None
        item = self._new(action.server, action.name)
        item.call, item.in_background = call, in_background
        if started.report is not None:
            item.reports.append(started.report)
        followed = _Followed(item, action, task.reference, hash_of(task.id), task)
        ttl = None if task.update is None else task.update.ttl
        saved = SavedTask(
            reference=task.reference,
            tool=action.name,
            target=action.server,
            at=item.since,
            expires=expiry(item.since, ttl),
            launch=action.launch,
        )
        self._note(followed, "created")
        try:
            # Before it is followed: its end removes it.
            await self._change_file(lambda: self._context.saved_tasks.add(saved))
        except asyncio.CancelledError:
            self._follow(followed)
            await self._abandon(item)
            raise
        self._follow(followed)
        return item

    def ended(self, server: str, tool: str, result: CallToolResult) -> HostTask:
        """A call that ended without becoming a task, as a task."""
        item = self._new(server, tool)
        item.end(result, "completed")
        return item

    async def reattach(self) -> None:
        """Find the tasks again that were running when a host of this user ended; no server is started for it."""
        try:
            kept = await self._context.thread_pool.run(self._context.saved_tasks.all)
        except LocalError as problem:
            self._context.emit(HostEvent(kind="config", detail=str(problem)))
            return
        for saved in kept:
            server = self._context.servers.get(saved.target)
            if server is None or saved.launch is None or saved.launch != server.launch:
                continue
            id = _id_of(saved.reference)
            if id is None:
                continue
            item = self._new(saved.target, saved.tool)
            item.since, item.in_background, item.status = saved.at, True, "reattaching"
            action = Action(kind="tool", server=saved.target, name=saved.tool, **server.identity)
            self._follow(_Followed(item, action, saved.reference, hash_of(id), None))

    async def wait(self, item: HostTask, timeout: float | None, background_after: float | None) -> CallToolResult:
        """Wait for the result of a call; the task is cancelled if the caller is, unless the host is closed.

        After `background_after` seconds the wait ends, and the task goes on; not while it waits for the user.
        """
        loop = asyncio.get_running_loop()
        until = None if background_after is None else loop.time() + background_after
        limit = asyncio.timeout(timeout)
        try:
            async with limit:
                while not item.is_ended:
                    left = _LOOK_SECONDS if until is None else until - loop.time()
                    if left <= 0 and item.status != "input_required":
                        return self._into_background(item)
                    await item.changes(left if left > 0 else _LOOK_SECONDS)
                return await item.result()
        except TimeoutError:
            if not limit.expired():  # the error that the task ended in
                raise
            await self._abandon(item)
            raise Timeout(f"Tool {item.tool!r} has not ended within {timeout:g} s") from None
        except asyncio.CancelledError:
            await self._abandon(item)
            raise
        finally:
            item.call = None
            item.reports.clear()

    async def close(self) -> None:
        """Stop following; the tasks go on at their servers."""
        self._is_closing = True
        for follower in (followers := list(self._followers)):
            follower.cancel()
        await asyncio.gather(*followers, return_exceptions=True)

    def _new(self, server: str, tool: str) -> HostTask:
        number = next(self._numbers)
        item = self._items[number] = HostTask(number, server, tool, self._cancel)
        return item

    def _into_background(self, item: HostTask) -> BackgroundResult:
        item.in_background = True
        self._emit(item)
        return background_result(item)

    async def _abandon(self, item: HostTask) -> None:
        if self._is_closing or item.is_ended:
            return
        try:
            async with asyncio.timeout(_CANCEL_SECONDS):
                await self._cancel(item, None)
        except Exception as problem:
            logger.warning("Task %d (%s) could not be cancelled: %s", item.number, item.tool, problem or "no answer")

    async def _cancel(self, item: HostTask, by: Decider | None = "person") -> None:
        followed = self._followed.get(item)
        if followed is None:
            return
        if followed.task is None:
            raise ConnectionLost(f"The server {item.server!r} is not connected, so that its task cannot be cancelled")
        await self._context.consent.record("task", followed.action, by, "", task=followed.hash, status="cancelling")
        await followed.task.cancel()
        # A task that is cancelled asks nothing more, so that following it cannot be what waits for an answer.
        update = await followed.task.refresh()
        self._updated(item, update.status, update.message)

    def _follow(self, followed: _Followed) -> None:
        if self._is_closing:
            return
        self._followed[followed.item] = followed
        follower = asyncio.create_task(self._run(followed), name=f"dovetail-task-{followed.item.number}")
        self._followers.add(follower)
        follower.add_done_callback(self._followers.discard)
        self._emit(followed.item)

    async def _run(self, followed: _Followed) -> None:
        """Follow one task to its end, over as many connections as it takes."""
        item = followed.item
        followed_task.set((item, followed.hash))
        while True:
            try:
                task = followed.task = followed.task or await self._found_again(followed)
                result = await self._followed_to_end(item, task)
            except ConnectionLost as problem:
                followed.task = None
                self._updated(item, "reattaching", str(problem))
                await asyncio.sleep(_PAUSE)
            except DovetailError as problem:
                if followed.task is not None:
                    await followed.task.abandon(problem)
                return await self._over(followed, problem)
            except Exception as problem:
                logger.exception("Following task %d failed", item.number)
                return await self._over(followed, LocalError(f"The host failed: {type(problem).__name__}"))
            else:
                return await self._over(followed, result)

    async def _found_again(self, followed: _Followed) -> Task:
        """Wait until the server is ready, and take up the task there."""
        key = followed.item.server
        while True:
            server = self._context.servers.get(key)
            if server is None or server.launch != followed.action.launch:
                # Another server must not learn the id.
                raise LocalError(f"The configuration of {key!r} has changed, so that the task is not followed any more")
            if (connected := server.ready) is not None:
                return connected.client.task(followed.reference)
            await self._context.change_signal.wait(_LOOK_SECONDS)

    async def _followed_to_end(self, item: HostTask, task: Task) -> CallToolResult:
        messages = 0
        async for update in task:
            had = item.message
            self._updated(item, update.status, update.message)
            if item.message not in (None, had):
                messages += 1
                await call_reports(item, messages)
        return await task.result(check=False)

    def _updated(self, item: HostTask, status: Any, message: str | None) -> None:
        if item.is_ended or status in ("completed", "failed", "cancelled"):
            return  # told together with its result
        if item.update(status, message):
            self._emit(item)

    async def _over(self, followed: _Followed, outcome: CallToolResult | DovetailError) -> None:
        item = followed.item
        if isinstance(outcome, DovetailError):
            kinds = {TaskCancelled: "cancelled", TaskNotFound: "lost"}
            status: Any = next((word for kind, word in kinds.items() if isinstance(outcome, kind)), "failed")
            details: dict[str, Any] = {"error": str(outcome)}
        else:
            status = "completed"
            details = {"is_error": bool(outcome.is_error), "characters": len(outcome.text)}
        self._note(followed, status, **details)
        await self._change_file(lambda: self._context.saved_tasks.remove(followed.reference))
        del self._followed[item]
        item.end(outcome, status)
        for old in [each for each in self._items.values() if each.is_ended][:-MAX_ENDED_TASKS]:
            del self._items[old.number]
        self._emit(item)

    async def _change_file(self, change: Callable[[], None]) -> None:
        try:
            await self._context.thread_pool.run(change)
        except LocalError as problem:
            text = f"Tasks cannot be found again after a restart: {problem}"
            self._context.emit(HostEvent(kind="config", detail=text))

    def _note(self, followed: _Followed, status: str, **details: Any) -> None:
        self._context.consent.note("task", followed.action, task=followed.hash, status=status, **details)

    def _emit(self, item: HostTask) -> None:
        self._context.emit(HostEvent(kind="task", server=item.server, detail=item))


def _id_of(reference: str) -> str | None:
    from dovetail.client.tasks.reference import read_reference

    try:
        return read_reference(reference).id
    except LocalError:
        return None
