"""The queue of tasks that wait for a process with room; every process that shares the store takes from it.

Servers with different tools may share the store too: each takes from the queue of its own namespace.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Protocol

from dovetail.protocol.tasks import TaskRecord

from .stored_tasks import StoredTask, StoredTasks

if TYPE_CHECKING:
    from dovetail.server.features.tools import RegisteredTool

KEEPER_SECONDS = 1.0
"""Seconds for which an answered task is left to the process where its handler waits."""

DIED = "The process that ran the task ended before it had finished"

_BATCH = 50
_MAX_BATCH = 1600
_LEFTOVER_SECONDS = 10.0
"""Seconds after which an entry for a task that nobody can run is removed. Not at once: a process adds the entry before
it changes the record."""


class QueueOwner(Protocol):
    """The tasks of a process, which it takes from the queue."""

    stored: StoredTasks

    @property
    def worker(self) -> str: ...
    @property
    def takes_tasks(self) -> bool: ...
    @property
    def is_full(self) -> bool: ...
    def clock(self) -> float: ...
    def has_room_for(self, client: str, tool: RegisteredTool) -> bool: ...
    def runs(self, handle: str) -> bool: ...
    def tool_of(self, record: TaskRecord) -> RegisteredTool | None: ...
    async def log_failures(self, work: Awaitable[None]) -> None: ...
    async def is_worker_alive(self, worker: str) -> bool: ...
    async def begin(
        self, stored: StoredTask, tool: RegisteredTool, claim: Callable[[TaskRecord], TaskRecord | None]
    ) -> bool: ...
    async def give_up(self, handle: str, worker: str, reason: str) -> bool: ...


class TaskQueue:
    """Takes tasks from the queue as long as their process has room for them."""

    def __init__(self, owner: QueueOwner) -> None:
        self._owner = owner
        self._taking: asyncio.Task[None] | None = None
        self._look_again = False
        self._may_have_more = True
        """Something was left in the queue for which there was no room."""
        self._leftovers: dict[str, float] = {}
        """Entries that nobody can run, with the time when they were first seen."""
        self._limited: dict[str, tuple[str, RegisteredTool]] = {}
        """Entries that have to wait for other tasks of their client, or of their tool, with both."""

    def look_soon(self) -> None:
        """Something was put into the queue, or may have been."""
        if self._taking is not None:
            self._look_again = True
        elif self._owner.takes_tasks:
            # The context here is that of somebody's request or task, of which what the queue starts must have nothing.
            work = self._owner.log_failures(self._take())
            self._taking = asyncio.get_running_loop().create_task(work, context=contextvars.Context())
            self._taking.add_done_callback(self._taken)

    def place_became_free(self) -> None:
        """There is room for another task."""
        if self._may_have_more:
            self.look_soon()

    def _taken(self, _: asyncio.Task[None]) -> None:
        self._taking = None
        if self._look_again:
            self._look_again = False
            self.look_soon()

    async def _take(self) -> None:
        owner, batch = self._owner, _BATCH
        while batch <= _MAX_BATCH:
            self._may_have_more = False
            handles = await owner.stored.queued(batch)
            left = 0
            for handle in handles:
                if not owner.takes_tasks or owner.is_full:
                    self._may_have_more = True
                    return
                left += not await self._claim(handle)
            if len(handles) < batch:
                self._forget_all_but(set(handles))
                return
            if left:
                batch *= 2  # those that cannot run now must not hold up the ones behind them

    def _forget_all_but(self, handles: set[str]) -> None:
        """Other processes have taken the other entries."""
        self._leftovers = {handle: seen for handle, seen in self._leftovers.items() if handle in handles}
        self._limited = {handle: limited for handle, limited in self._limited.items() if handle in handles}

    async def _claim(self, handle: str) -> bool:
        """Run a task, unless it needs nobody, or another process is faster; False if its entry stays in the queue."""
        owner, limited = self._owner, self._limited.pop(handle, None)
        if limited is not None and not owner.has_room_for(*limited):
            return self._leave_for_later(handle, *limited)
        stored = await owner.stored.find(handle)
        if stored is None or stored.record.status != "working":
            return await self._remove_leftover(handle, ended=stored is not None and stored.record.is_ended)
        record = stored.record
        if record.worker:
            if await owner.is_worker_alive(record.worker):
                return await self._remove_leftover(handle, ended=False)
            await owner.give_up(handle, record.worker, DIED)
            return False
        self._leftovers.pop(handle, None)
        tool = owner.tool_of(record)
        if tool is None or owner.runs(handle):
            return False  # another version of the server may have the tool
        if not owner.has_room_for(record.limited_as, tool):
            return self._leave_for_later(handle, record.limited_as, tool)
        return await self._begin(handle, stored, tool)

    async def _begin(self, handle: str, stored: StoredTask, tool: RegisteredTool) -> bool:
        owner, record = self._owner, stored.record
        recently = owner.clock() < record.updated + KEEPER_SECONDS
        if recently and record.keeper != owner.worker and await owner.is_worker_alive(record.keeper):
            asyncio.get_running_loop().call_later(KEEPER_SECONDS, self.look_soon)
            return False
        if not await owner.begin(stored, tool, lambda record: _claimed(record, owner.worker, stored.record)):
            return False
        await owner.stored.dequeue(handle)
        return True

    def _leave_for_later(self, handle: str, client: str, tool: RegisteredTool) -> bool:
        self._limited[handle] = client, tool
        self._may_have_more = True
        return False

    async def _remove_leftover(self, handle: str, *, ended: bool) -> bool:
        """Remove a task from the queue that nobody can run, once no process can be about to change that."""
        now = asyncio.get_running_loop().time()
        if not ended and now < self._leftovers.setdefault(handle, now) + _LEFTOVER_SECONDS:
            return False
        self._leftovers.pop(handle, None)
        await self._owner.stored.dequeue(handle)
        return True


def _claimed(record: TaskRecord, worker: str, seen: TaskRecord) -> TaskRecord | None:
    """The record of a task that a worker begins to run; None if it was changed since it was seen in the queue."""
    if record.status != "working" or (record.worker, record.run) != (seen.worker, seen.run):
        return None
    return record.replace(record.updated, worker=worker, keeper="", run=record.run + 1)
