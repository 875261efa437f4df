"""The records of tasks in the store, each changed by compare-and-swap, and the groups that find them again."""

from __future__ import annotations

import time
from collections.abc import Callable
from hashlib import blake2b
from typing import NamedTuple

import msgspec

from dovetail.protocol.errors import INTERNAL_ERROR, ProtocolError
from dovetail.protocol.tasks import MAX_RECORD, MAX_TTL_SECONDS, WORKING_SECONDS, TaskRecord
from dovetail.server.sealed_values import SealedValues
from dovetail.storage.contract import Store

MAX_OPEN_TASKS = 10_000
"""Tasks of one principal, or of one address, that have not ended."""

MAX_LISTED_TASKS = 10_000
"""Tasks of one principal that `tasks/list` shows."""

MAX_QUEUED_TASKS = 1_000_000
MAX_WORKERS = 10_000

_QUEUE = "task-queue"
_WORKERS = "task-workers"
_LOOK = "task-workers-looked-after"

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(TaskRecord).decode


class StoredTask(NamedTuple):
    """A record, its handle, and the value in the store that it was read from."""

    record: TaskRecord
    handle: str
    value: bytes


class StoredTasks:
    """Adds, finds and changes the records of tasks.

    A task is found by its handle, a hash of its id: who can read the names in a store has no access to the tasks. A
    process that runs a task is in a group of workers, and the task in the group of its worker, so that others find the
    tasks of a process that died.

    Servers with different tools may share a store, as the views of a gateway do. Each has a namespace, with a queue and
    lists of its own, so that none of them runs or shows a task of another. The groups of workers belong to all of them:
    whoever finds that a process has died puts its tasks into the queues of their own namespaces.
    """

    def __init__(
        self, store: Store, sealed: SealedValues, clock: Callable[[], float] = time.time, namespace: str = ""
    ) -> None:
        self._store = store
        self._sealed = sealed
        self.clock = clock
        self.namespace = namespace

    async def add(self, record: TaskRecord) -> StoredTask:
        """Add a task: when this returns, every process finds it. Refuses one more than its client or tool may have."""
        handle = handle_of(record.id)
        store, name = self._store, _name(handle)
        record = self._listed_longer(record)
        if not await store.join(_open(record), handle, self._listed_for(record), MAX_OPEN_TASKS):
            raise ProtocolError(
                INTERNAL_ERROR, f"There are {MAX_OPEN_TASKS:,} tasks of this caller already; wait until some have ended"
            )
        if record.max_tasks and not await self._count_of_tool(record, handle):
            await store.leave(_open(record), handle)
            raise ProtocolError(
                INTERNAL_ERROR, f"There are {record.max_tasks:,} tasks of {record.tool} already; try again later"
            )
        value = _encoded(record)
        if store.shared:
            value = await self._sealed.seal(name, value)
        # The groups come first: a task that no group has would be lost if this process died.
        if not record.worker:
            await self.enqueue(record)
        elif store.shared:
            await self.begin_run(record.worker, handle)
        if record.principal is not None:
            await store.join(_listed_of(record), handle, self._listed_for(record), MAX_LISTED_TASKS)
        await store.put(name, value, self._ttl(record))
        return StoredTask(record, handle, value)

    async def find(self, handle: str) -> StoredTask | None:
        """A task, or None; one whose key is gone is as good as expired."""
        name = _name(handle)
        value = await self._store.get(name)
        if value is None:
            return None
        content = await self._sealed.open(name, value) if self._store.shared else value
        if content is None:
            return None
        record = _decode(content)
        return None if record.kept_until <= self.clock() else StoredTask(record, handle, value)

    async def swap(self, before: StoredTask, after: TaskRecord) -> StoredTask | None:
        """Change a task if nobody has changed it meanwhile; None if somebody has."""
        handle, name = before.handle, _name(before.handle)
        if not after.is_ended and after.kept_until > after.listed_until:
            after = self._listed_longer(after)
            await self._store.join(_open(after), handle, self._listed_for(after), MAX_OPEN_TASKS)
            if after.max_tasks:
                await self._count_of_tool(after, handle)
            if after.principal is not None:
                await self._store.join(_listed_of(after), handle, self._listed_for(after), MAX_LISTED_TASKS)
        value = _encoded(after)
        if self._store.shared:
            value = await self._sealed.seal(name, value)
        if not await self._store.replace(name, value, self._ttl(after), expected=before.value):
            return None
        return StoredTask(after, handle, value)

    async def end(self, record: TaskRecord, worker: str) -> None:
        """Free what a task held that has ended; `worker` is the process that ran it, if one did."""
        handle, store = handle_of(record.id), self._store
        await store.leave(_open(record), handle)
        if record.max_tasks:
            await store.leave(_of_tool(record), handle)
        if store.shared and worker:
            await store.leave(_run_by(worker), handle)
        if record.principal is not None:
            await store.join(_listed_of(record), handle, record.ttl, MAX_LISTED_TASKS)

    async def _count_of_tool(self, record: TaskRecord, handle: str) -> bool:
        return await self._store.join(_of_tool(record), handle, self._listed_for(record), record.max_tasks)

    async def handles_of(self, principal: str) -> list[str]:
        """The handles of the tasks of a principal in this namespace."""
        return sorted(await self._store.members(_listed(principal, self.namespace), MAX_LISTED_TASKS))

    async def enqueue(self, record: TaskRecord) -> None:
        """Let any process of its namespace that has room run the task."""
        await self._store.join(_queue(record.namespace), handle_of(record.id), MAX_TTL_SECONDS, MAX_QUEUED_TASKS)

    async def dequeue(self, handle: str) -> None:
        """The task runs, or needs nobody."""
        await self._store.leave(_queue(self.namespace), handle)

    async def queued(self, limit: int) -> list[str]:
        """The handles of tasks of this namespace that wait for a process that runs them."""
        return await self._store.members(_queue(self.namespace), limit)

    async def begin_run(self, worker: str, handle: str) -> None:
        """Let others find the task if this process dies; before the record says that it runs it."""
        await self._store.join(_run_by(worker), handle, MAX_TTL_SECONDS, MAX_QUEUED_TASKS)

    async def end_run(self, worker: str, handle: str) -> None:
        """A process does not run the task any more."""
        await self._store.leave(_run_by(worker), handle)

    async def run_by(self, worker: str, limit: int) -> list[str]:
        """The handles of the tasks that a process ran when it was last known."""
        return await self._store.members(_run_by(worker), limit)

    async def add_worker(self, worker: str) -> None:
        """Let others look after the tasks of this process."""
        await self._store.join(_WORKERS, worker, MAX_TTL_SECONDS, MAX_WORKERS)

    async def remove_worker(self, worker: str) -> None:
        """A process runs no tasks any more."""
        await self._store.leave(_WORKERS, worker)

    async def is_first_to_look(self, seconds: float) -> bool:
        """True for one process in so many seconds: it looks whether others have died, for all of them."""
        return await self._store.add(_LOOK, b"", seconds)

    async def workers(self) -> list[str]:
        """All processes that run tasks, or did when they died."""
        return await self._store.members(_WORKERS, MAX_WORKERS)

    def _ttl(self, record: TaskRecord) -> float:
        return max(record.kept_until - self.clock(), 1.0)

    def _listed_longer(self, record: TaskRecord) -> TaskRecord:
        """The record with a time in groups that need not be renewed with every change."""
        seconds = 2 * max(record.ttl, WORKING_SECONDS)
        return msgspec.structs.replace(record, listed_until=self.clock() + seconds)

    def _listed_for(self, record: TaskRecord) -> float:
        return max(record.listed_until - self.clock(), 1.0)


def handle_of(id: str) -> str:
    """The handle of a task, by which logs and the store name it."""
    return blake2b(id.encode(), digest_size=16, person=b"dovetail-task").hexdigest()


def _encoded(record: TaskRecord) -> bytes:
    content = _encode(record)
    if len(content) > MAX_RECORD:
        raise ProtocolError(
            INTERNAL_ERROR, f"The arguments, answers, steps and result of a task may have {MAX_RECORD:,} bytes together"
        )
    return content


def _name(handle: str) -> str:
    return f"task:{handle}"


def _open(record: TaskRecord) -> str:
    return f"open-tasks:{_digest(record.limited_as)}"


def _of_tool(record: TaskRecord) -> str:
    return _within(record.namespace, f"open-tasks-of-tool:{_digest(record.tool)}")


def _listed(principal: str, namespace: str) -> str:
    return _within(namespace, f"tasks-of:{_digest(principal)}")


def _listed_of(record: TaskRecord) -> str:
    assert record.principal is not None
    return _listed(record.principal, record.namespace)


def _queue(namespace: str) -> str:
    return _within(namespace, _QUEUE)


def _within(namespace: str, group: str) -> str:
    return f"{group}:{_digest(namespace)}" if namespace else group


def _run_by(worker: str) -> str:
    return f"tasks-run-by:{worker}"


def _digest(text: str) -> str:
    return blake2b(text.encode(), digest_size=16).hexdigest()
