"""The tasks of one server on one event loop: created, run, suspended, resumed, cancelled, and taken over.

Every change of a task is a compare-and-swap of its record, and is announced to all processes that share the store: the
one that runs the task then stops or resumes its handler, and those with clients that watch it tell them. A process
proves that it lives with the heartbeat of its replica; the tasks of one that died are released to the others, or fail.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from dovetail.protocol.client_address import client_text
from dovetail.protocol.errors import INTERNAL_ERROR, outcome_unknown
from dovetail.protocol.revisions import REVISIONS
from dovetail.protocol.tasks import WORKING_SECONDS, Event, TaskError, TaskRecord, task_not_found
from dovetail.runtime.connection import CLEAN_UP_SECONDS
from dovetail.server.mrtr.suspendable_call import SuspendableCall
from dovetail.server.replicas.replica import ALIVE_SECONDS
from dovetail.server.sealed_values import SealedValues
from dovetail.storage.contract import StoreError
from dovetail.types.fair_bounded_dict import FairBoundedDict

from .answers import check_answer, with_answers
from .request_contexts import RequestContexts
from .running_places import RunningPlaces
from .stored_tasks import StoredTask, StoredTasks, handle_of
from .task_queue import DIED, TaskQueue
from .task_run import TaskRun

if TYPE_CHECKING:
    from dovetail.server.core import ServerCore
    from dovetail.server.features.tools import RegisteredTool
    from dovetail.server.invocation import Invocation
    from dovetail.server.replicas.replica import Replica
    from dovetail.server.session import ServerCall
    from dovetail.types.tasks import TaskMetadata

logger = logging.getLogger("dovetail")

MAX_WAITING_TASKS = 200
"""Tasks whose handlers wait for answers in memory; above it the oldest of the client with the most is released, and
begun from its journal when the answers come."""

WATCH_SECONDS = 2.0
"""Seconds between two looks at the queue, and at the heartbeats of other workers."""

LOOK_SECONDS = 0.75 * WATCH_SECONDS
"""Seconds for which no other process looks at the heartbeats of workers after one has: less than the time between two
looks, so that the one that has looked last does not find its own entry there."""

RENEW_SECONDS = WORKING_SECONDS / 4
"""Seconds between two looks at running tasks that would expire unless they are renewed."""

_TAKE_OVER_BATCH = 1000
_REGISTERED_SECONDS = 86_400.0

Watcher: TypeAlias = Callable[[TaskRecord], None]
Running: TypeAlias = "tuple[SuspendableCall, Invocation]"


class Tasks:
    """The tasks that this process runs on one event loop, and access to all others in the store."""

    def __init__(self, core: ServerCore, replica: Replica | None = None) -> None:
        """With a replica it works together with the processes that share the store."""
        self.core = core
        self.loop = asyncio.get_running_loop()
        self.worker = os.urandom(6).hex()
        """The name of this process as one that runs tasks: that of its replica, if it is one."""
        self.runs_tasks = core.runs_tasks
        """False if tasks are left to other processes."""
        self.stored = StoredTasks(core.store, SealedValues(core), core.clock, core.task_namespace)
        self.replica: Replica | None = None
        self._runs: dict[str, TaskRun] = {}
        self._driving: dict[TaskRun, asyncio.Task[None]] = {}
        self._places = RunningPlaces()
        self._waiting: FairBoundedDict[str, str, TaskRun] = FairBoundedDict(MAX_WAITING_TASKS)
        self._contexts = RequestContexts(core.callers)
        self._watchers: dict[str, set[Watcher]] = {}
        self._spawned: set[asyncio.Task[None]] = set()
        self._looking: asyncio.Task[None] | None = None
        self._queue = TaskQueue(self)
        self._renewing: asyncio.TimerHandle | None = None
        self._registered: tuple[int, float] = (-1, 0.0)
        self._lapses = 0
        self._stopping = self._stopped = False
        if replica is not None:
            self._join(replica)
        self._queue.look_soon()  # tasks that were released when the server last had no clients

    def clock(self) -> float:
        """The time in seconds since 1970."""
        return self.stored.clock()

    @property
    def is_alive(self) -> bool:
        """True if the event loop of these tasks runs, or may run again."""
        return not self.loop.is_closed() and not self._stopped

    @property
    def keeps_handlers(self) -> bool:
        """True if handlers that wait for answers may stay in memory."""
        return not self._stopping

    def __len__(self) -> int:
        return len(self._places)

    def _join(self, replica: Replica) -> None:
        from dovetail.server.replicas.messages import TaskChanged

        self.replica, self.worker, self._lapses = replica, replica.id, replica.lapses
        replica.on(TaskChanged, lambda message: self._announced(message.handle, message.queued))
        replica.on_gap["tasks"] = self._missed_announcements
        self.stored = StoredTasks(replica.store, SealedValues(self.core), self.stored.clock, self.stored.namespace)
        self._looking = asyncio.create_task(self._look_after_others(), name="dovetail-tasks")

    async def create(
        self,
        call: ServerCall,
        tool: RegisteredTool,
        arguments: dict[str, Any],
        wanted: TaskMetadata | None,
        running: Running | None = None,
    ) -> StoredTask:
        """Create a task, and run it here if there is room; `running` is its handler if it runs already."""
        assert tool.task is not None
        terms, client = call.terms, client_text(call.client_key)
        here = running is not None or self.has_room_for(client, tool)
        now = self.clock()
        record = TaskRecord(
            id=secrets.token_urlsafe(16),
            tool=tool.name,
            arguments=arguments,
            revision=terms.revision.name,
            created=now,
            updated=now,
            ttl=tool.task.ttl_for(wanted),
            principal=terms.principal,
            scopes=None if terms.scopes is None else sorted(terms.scopes),
            caller=self._contexts.caller_of(call),
            client=terms.client,
            capabilities=terms.capabilities,
            meta=call.request.params.get("_meta") or {},
            resume=tool.task.resume,
            max_tasks=tool.task.max_tasks,
            limited_as=client,
            namespace=self.stored.namespace,
            worker=self.worker if here else "",
            run=1 if here else 0,
            journal={} if running is None else dict(running[0].journal.entries),
        )
        kept = self._contexts.keeping(handle_of(record.id), client)
        with kept if self.runs_tasks else contextlib.nullcontext():
            if not here:
                stored = await self.stored.add(record)
                self.announce(stored.handle, queued=True)
                return stored
            self._places.take(client, tool.name)
            try:
                await self._register()
                stored = await self.stored.add(record)
            except BaseException:
                self._places.give_back(client, tool.name)
                raise
        self._start(stored, tool, call, running)
        return stored

    async def find(self, id: str, principal: str | None) -> StoredTask:
        """A task that a principal may see; one and the same error for all that it may not, or that do not exist."""
        stored = await self.stored.find(handle_of(id))
        if stored is None or stored.record.principal != principal or stored.record.namespace != self.stored.namespace:
            raise task_not_found()
        if not self.core.shows(principal, "tool", stored.record.tool):
            raise task_not_found()
        if not self.core.store.shared and await self._rescue(stored):
            return await self.find(id, principal)
        return stored

    async def find_all(self, handles: Iterable[str], principal: str) -> list[TaskRecord]:
        """Those of some tasks that still exist and that a principal may see, the oldest first."""
        found = [await self.stored.find(handle) for handle in handles]
        records = [stored.record for stored in found if stored is not None]
        visible = [record for record in records if self.core.shows(principal, "tool", record.tool)]
        return sorted(visible, key=lambda record: (record.created, record.id))

    async def update(self, id: str, principal: str | None, responses: dict[str, Any]) -> None:
        """Give a task answers to its open questions; answers to anything else are ignored."""
        known = await self.find(id, principal)
        revision = REVISIONS[known.record.revision]
        now = self.clock()
        elsewhere = self.replica is not None and known.record.keeper != self.worker
        if elsewhere and any(key in responses for key in known.record.questions):
            # Before the record says that somebody has to run the task: this process may die in between.
            await self.stored.enqueue(known.record)

        def answer(record: TaskRecord) -> TaskRecord | None:
            answered = {key: question for key, question in record.questions.items() if key in responses}
            for key, question in answered.items():
                check_answer(revision, key, question, responses[key])
            return with_answers(record, answered, responses, now) if answered else None

        done = await self.change(handle_of(id), answer, known)
        if done is not None and done.record.status == "working" and done.record.keeper != self.worker:
            # The process that keeps the handler is faster; if it is gone, the queue finds another one.
            await self.stored.enqueue(done.record)
            self.announce(handle_of(id), queued=True)

    async def refuse(self, id: str, key: str, reason: str) -> None:
        """The client did not answer a question, or with something else, which ends the task as it would a call."""
        error = TaskError(INTERNAL_ERROR, reason)
        now = self.clock()

        def fail(record: TaskRecord) -> TaskRecord | None:
            return record.change(Event.RAISED, now, error.message, error=error) if key in record.questions else None

        await self.change(handle_of(id), fail)

    async def cancel(self, id: str, principal: str | None) -> tuple[TaskRecord, bool]:
        """Cancel a task and stop its handler; False with the record if it had ended before."""
        known = await self.find(id, principal)
        now, reason = self.clock(), "The task was cancelled by its client"
        done = await self.change(handle_of(id), lambda record: record.change(Event.CANCELLED, now, reason), known)
        if done is not None:
            return done.record, True
        return (await self.find(id, principal)).record, False

    async def change(
        self, handle: str, make: Callable[[TaskRecord], TaskRecord | None], known: StoredTask | None = None
    ) -> StoredTask | None:
        """Change a record, again where another process was faster; None if `make` returns None, or it is gone.

        Whatever follows from the change happens before this returns, in this process.
        """
        before = known or await self.stored.find(handle)
        while before is not None:
            after = make(before.record)
            if after is None:
                return None
            done = await self.stored.swap(before, after)
            if done is not None:
                if after.is_ended:
                    await self._finish(after, before.record.worker or before.record.keeper)
                self._changed(handle, done)
                self.announce(handle)
                return done
            before = await self.stored.find(handle)
        return None

    def watch(self, handle: str, watcher: Watcher) -> Callable[[], None]:
        """Call a function with the record whenever it has changed; returns what ends that."""
        self._watchers.setdefault(handle, set()).add(watcher)

        def unwatch() -> None:
            watchers = self._watchers.get(handle)
            if watchers is not None:
                watchers.discard(watcher)
                if not watchers:
                    del self._watchers[handle]

        return unwatch

    async def suspended(self, run: TaskRun, *, keeps: bool) -> None:
        """A handler waits for answers: it needs no place, and is kept in memory as long as there is room."""
        self._places.give_back(run.owner, run.tool_name)
        run.holds_place = False
        self._queue.place_became_free()
        if self.replica is not None and not keeps:
            await self.stored.end_run(self.worker, run.handle)
        if keeps:
            # It stays among the runs of this process: should that die, others see whether it was answered.
            self._waiting.pop(run.handle)
            evicted = self._waiting.add(run.owner, run.handle, run)
            if evicted is not None:
                self.spawn(self._drop(evicted.value))

    async def resumed(self, run: TaskRun) -> bool:
        """A handler that waited in memory can go on; False if another process has the task now."""
        self._waiting.pop(run.handle)
        self._places.take(run.owner, run.tool_name)
        run.holds_place = True
        if self.replica is not None:
            await self._register()
            await self.stored.begin_run(self.worker, run.handle)
        if not await run.claim():
            return False
        if self.replica is not None:
            await self.stored.dequeue(run.handle)
        return True

    async def may_go_on(self, run: TaskRun) -> bool:
        """True if the task is still that of this process; waits while the store cannot say so.

        As long as the heartbeat has never lapsed since the task was last seen, nobody else may have taken it over.
        """
        replica = self.replica
        while replica is not None and not (replica.has_beaten and run.lapses == replica.lapses):
            try:
                await replica.beat()
                lapses, stored = replica.lapses, await self.stored.find(run.handle)
            except StoreError:
                await asyncio.sleep(WATCH_SECONDS / 4)
                continue
            record = None if stored is None else stored.record
            if record is None or record.is_ended or (record.worker, record.run) != (self.worker, run.number):
                if record is not None and record.status == "working" and not record.worker:
                    # Again: this process may have removed it from the queue since, taking the task for its own.
                    await self.stored.enqueue(record)
                    self.announce(run.handle, queued=True)
                return False
            run.lapses = lapses
        return True

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something in the background; a store that fails is logged."""
        task = self.loop.create_task(self.log_failures(work))
        self._spawned.add(task)
        task.add_done_callback(self._spawned.discard)

    async def stop(self, grace: float = 0.0) -> None:
        """Run nothing more: tasks that may go on elsewhere are released at once, others may end in the grace period.

        Those that have not ended then fail. On another event loop than that of the tasks it does nothing.
        """
        if self._stopping or self.loop is not asyncio.get_running_loop():
            return
        self._stopping = True
        for waiting in (self._looking, self._renewing):
            if waiting is not None:
                waiting.cancel()
        await self._stop_runs([run for run in self._runs.values() if run.may_move])
        if self._driving and grace > 0:
            await asyncio.wait(self._driving.values(), timeout=grace)
        await self._stop_runs(list(self._runs.values()))
        if self.replica is not None:
            with contextlib.suppress(StoreError):
                await self.stored.remove_worker(self.worker)
        if self._spawned:
            await asyncio.wait(self._spawned, timeout=CLEAN_UP_SECONDS)
        self._stopped = True

    async def _stop_runs(self, runs: Sequence[TaskRun]) -> None:
        driving = [self._driving[run] for run in runs if run in self._driving]
        for run in runs:
            run.stop()
        if driving:
            await asyncio.wait(driving, timeout=CLEAN_UP_SECONDS)
        with contextlib.suppress(StoreError):
            for run in runs:
                await self.give_up(run.handle, self.worker, "The server was stopped while it ran the task")
                if self.replica is not None:
                    await self.stored.end_run(self.worker, run.handle)

    @property
    def takes_tasks(self) -> bool:
        """True if this process runs tasks, and does not stop."""
        return self.runs_tasks and not self._stopping and not self.loop.is_closed()

    @property
    def is_full(self) -> bool:
        """True if this process runs as many tasks as it may."""
        return self._places.is_full

    def has_room_for(self, client: str, tool: RegisteredTool) -> bool:
        """True if this process may run another task of a client and a tool now."""
        return self.takes_tasks and self._places.has_room(client, tool.name, tool.concurrency)

    def runs(self, handle: str) -> bool:
        """True if the handler of a task runs or waits here."""
        return handle in self._runs

    def tool_of(self, record: TaskRecord) -> RegisteredTool | None:
        """The tool of a task; None if this server does not have it."""
        tool = self.core.tools.get(record.tool) if record.namespace == self.stored.namespace else None
        return None if tool is None or tool.task is None else tool

    def _start(
        self, stored: StoredTask, tool: RegisteredTool, call: ServerCall | None = None, running: Running | None = None
    ) -> None:
        """Run a task whose place is counted already."""
        run = TaskRun(self, stored, tool, origin=call, running=running)
        run.lapses = 0 if self.replica is None else self.replica.lapses
        self._runs[run.handle] = run
        if self._renewing is None:
            self._renewing = self.loop.call_later(RENEW_SECONDS, self._renew)
        task = self._driving[run] = run.driver = self.loop.create_task(run.drive(), name="dovetail-task")
        task.add_done_callback(lambda _: self._run_ended(run))

    def _run_ended(self, run: TaskRun) -> None:
        task = self._driving.pop(run)
        if self._runs.get(run.handle) is run:
            del self._runs[run.handle]
        if self._waiting.get(run.handle) is run:
            self._waiting.pop(run.handle)
        if run.holds_place:
            self._places.give_back(run.owner, run.tool_name)
        if run.is_stopped and self.replica is not None and not self._stopping:
            self.spawn(self.stored.end_run(self.worker, run.handle))
        if not task.cancelled() and (problem := task.exception()) is not None:
            logger.error("The task %s failed", run.handle, exc_info=problem)
        self._queue.place_became_free()

    def _changed(self, handle: str, stored: StoredTask) -> None:
        """React to a change of a task, whoever made it."""
        run = self._runs.get(handle)
        if run is not None:
            run.changed(stored)
        if stored.record.is_ended:
            self._contexts.forget(handle)
        for watcher in list(self._watchers.get(handle, ())):
            watcher(stored.record)

    def announce(self, handle: str, *, queued: bool = False) -> None:
        """Tell the other event loops of this process, and the other processes, of a change."""
        if self.replica is not None:
            from dovetail.server.replicas.messages import TaskChanged

            self.replica.announce(TaskChanged(handle, queued))
        for other in self.core.all_tasks():
            if other is not self:
                with contextlib.suppress(RuntimeError):  # its loop is closed
                    other.loop.call_soon_threadsafe(other._announced, handle, queued)
        if queued:
            self._queue.look_soon()

    def _announced(self, handle: str, queued: bool) -> None:
        if self._stopping:
            return
        if handle in self._watchers or handle in self._runs or handle in self._contexts:
            self.spawn(self._reload(handle))
        if queued:
            self._queue.look_soon()

    def _missed_announcements(self) -> None:
        """Any task that is watched or runs here, or was created here, may have been changed elsewhere."""
        if not self._stopping:
            self.spawn(self._reload(*{*self._watchers, *self._runs, *self._contexts.handles}))

    async def _reload(self, *handles: str) -> None:
        for handle in handles:
            stored = await self.stored.find(handle)
            if stored is not None:
                self._changed(handle, stored)

    async def _finish(self, record: TaskRecord, worker: str) -> None:
        try:
            await self.stored.end(record, worker)
        except StoreError as problem:
            # The groups expire by themselves; until then the task counts as an open one.
            logger.warning("A task that has ended is still counted: %s", problem)

    async def _drop(self, run: TaskRun) -> None:
        """Release a handler that waits in memory: its task is begun from its journal when the answers come."""

        def release(record: TaskRecord) -> TaskRecord | None:
            mine = record.keeper == self.worker and record.run == run.number and record.status == "input_required"
            return record.replace(record.updated, keeper="") if mine else None

        if await self.change(run.handle, release) is not None:
            run.stop()

    def _renew(self) -> None:
        """Keep running tasks from expiring, however long they run."""
        self._renewing = None
        now = self.clock()
        for run in self._runs.values():
            if not run.waiting and now > run.record.updated + max(run.record.ttl, WORKING_SECONDS) / 2:
                self.spawn(run.renew())
        if self._runs:
            self._renewing = self.loop.call_later(RENEW_SECONDS, self._renew)

    async def _register(self) -> None:
        """Let others look after the tasks of this process, before it runs one; again if they counted it as dead."""
        replica, now = self.replica, self.loop.time()
        if replica is not None and (self._registered[0] != replica.lapses or now >= self._registered[1]):
            lapses = replica.lapses
            await self.stored.add_worker(self.worker)
            self._registered = lapses, now + _REGISTERED_SECONDS

    async def begin(
        self, stored: StoredTask, tool: RegisteredTool, claim: Callable[[TaskRecord], TaskRecord | None]
    ) -> bool:
        """Begin to run a task from the queue; False if another process is faster."""
        handle, client = stored.handle, stored.record.limited_as
        self._places.take(client, tool.name)
        claimed = None
        try:
            if self.replica is not None:
                await self._register()
                await self.stored.begin_run(self.worker, handle)
            claimed = await self.change(handle, claim, stored)
            if claimed is not None:
                self._contexts.of(claimed).run(self._start, claimed, tool)
        finally:
            if claimed is None:
                self._places.give_back(client, tool.name)
        return claimed is not None

    async def is_worker_alive(self, worker: str) -> bool:
        if not worker:
            return False
        for tasks in self.core.all_tasks():
            if tasks.worker == worker:
                return tasks.is_alive
        return self.replica is not None and await self.replica.is_alive(worker)

    async def _rescue(self, stored: StoredTask) -> bool:
        """Release or fail a task whose event loop is closed; True if the record has changed."""
        record = stored.record
        if record.is_ended or not record.worker or await self.is_worker_alive(record.worker):
            return False
        return await self.give_up(stored.handle, record.worker, "The event loop that ran the task was closed")

    async def _look_after_others(self) -> None:
        """Run what waits in the queue, and take over the tasks of workers that died."""
        replica = self.replica
        assert replica is not None
        while True:
            try:
                await self._stop_lost_runs(replica)
                # Right after this process was cut off from the store, others may have been too, and live. While it is
                # cut off itself, others take over from it.
                settled = replica.has_beaten and self.loop.time() >= replica.lapsed + ALIVE_SECONDS
                if settled and await self.stored.is_first_to_look(LOOK_SECONDS):
                    for worker in await self.stored.workers():
                        if worker != self.worker and not await self.is_worker_alive(worker):
                            await self._take_over(worker)
                self._queue.look_soon()
            except StoreError as problem:
                logger.debug("Tasks cannot be looked after: %s", problem)
            except Exception:
                logger.exception("Looking after tasks failed; trying again")
            await asyncio.sleep(WATCH_SECONDS)

    async def _stop_lost_runs(self, replica: Replica) -> None:
        """Stop the handlers of tasks that others have taken over while this process was stopped or cut off."""
        if self._runs:
            await self._register()
        if self._lapses != replica.lapses:
            self._lapses = replica.lapses
            for run in list(self._runs.values()):
                if not run.waiting and not await self.may_go_on(run):
                    run.stop()

    async def _take_over(self, worker: str) -> None:
        while handles := await self.stored.run_by(worker, _TAKE_OVER_BATCH):
            for handle in handles:
                if await self.is_worker_alive(worker):
                    return
                await self.give_up(handle, worker, DIED)
                await self.stored.end_run(worker, handle)
        await self.stored.remove_worker(worker)

    async def give_up(self, handle: str, worker: str, reason: str) -> bool:
        """End what a worker that is gone has begun: release a task that may be resumed or waits, fail any other."""
        unknown = outcome_unknown(reason)
        error = TaskError(unknown.code, unknown.message, unknown.data)

        def end(record: TaskRecord) -> TaskRecord | None:
            if worker not in (record.worker, record.keeper) or record.is_ended:
                return None
            if record.worker != worker or record.resume or record.status == "input_required":
                return record.replace(record.updated, worker="", keeper="")
            return record.change(Event.RAISED, self.clock(), unknown.message, error=error)

        known = await self.stored.find(handle)
        after = None if known is None else end(known.record)
        if after is None:
            return False
        # First into the queue: between two steps that are not one, a task must not be in nobody's hands. And once more:
        # meanwhile the other process may have come back, and have removed what seems to be its own.
        if after.status == "working":
            await self.stored.enqueue(after)
        done = await self.change(handle, end, known)
        if done is not None and done.record.status == "working":
            await self.stored.enqueue(done.record)
            self.announce(handle, queued=True)
        return done is not None

    async def log_failures(self, work: Awaitable[None]) -> None:
        try:
            await work
        except StoreError as problem:
            logger.warning("A task cannot be served now: %s", problem)
        except Exception:
            logger.exception("Serving a task failed")
