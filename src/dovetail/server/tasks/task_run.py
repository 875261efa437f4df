"""One run of the handler of a task, in this process: from its first line, from its journal, or from a call."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Protocol

from dovetail.protocol.errors import ProtocolError
from dovetail.protocol.mrtr import Journal
from dovetail.protocol.revisions import REVISIONS
from dovetail.protocol.revisions.revision import Revision
from dovetail.protocol.tasks import Event, TaskError, TaskQuestion, TaskRecord
from dovetail.runtime.serve import as_protocol_error
from dovetail.server.invocation import HandlerServer, Invocation
from dovetail.server.mrtr.suspendable_call import SuspendableCall, load_answer
from dovetail.server.session import SessionServer
from dovetail.storage.contract import StoreError
from dovetail.types.client_features import InputRequest, InputRequired, method_of
from dovetail.types.serialization import Value

from .stored_tasks import StoredTask
from .task_call import TaskCall

if TYPE_CHECKING:
    from dovetail.server.features.tools import RegisteredTool
    from dovetail.server.session import ServerCall

logger = logging.getLogger("dovetail")

STATUS_SECONDS = 0.5
"""Seconds between two changes of a status message in the store; of those in between the last one is kept."""

_FAILURE_TEXT = 500
"""Characters of a failed result that its status message repeats."""

_RETRY_SECONDS = 0.1
_MAX_RETRY_SECONDS = 2.0


class TaskServer(HandlerServer, SessionServer, Protocol):
    """The parts of a server that a run of a task uses."""

    def emit_result(self, revision: Revision, method: str, value: Value) -> dict[str, Any]: ...


class RunOwner(Protocol):
    """The tasks that a run belongs to."""

    @property
    def core(self) -> TaskServer: ...
    @property
    def worker(self) -> str: ...
    @property
    def keeps_handlers(self) -> bool: ...
    def clock(self) -> float: ...
    def announce(self, handle: str) -> None: ...
    def spawn(self, work: Coroutine[Any, Any, None]) -> None: ...
    async def change(
        self, handle: str, make: Callable[[TaskRecord], TaskRecord | None], known: StoredTask | None = None
    ) -> StoredTask | None: ...
    async def suspended(self, run: TaskRun, *, keeps: bool) -> None: ...
    async def resumed(self, run: TaskRun) -> bool: ...
    async def may_go_on(self, run: TaskRun) -> bool: ...


class TaskRun:
    """Runs a handler and writes to the record what comes of it, as long as the run is the latest of its task."""

    def __init__(
        self,
        tasks: RunOwner,
        stored: StoredTask,
        tool: RegisteredTool,
        *,
        origin: ServerCall | None = None,
        running: tuple[SuspendableCall, Invocation] | None = None,
    ) -> None:
        """`origin` is the request that created the task; `running` is its handler if it runs already."""
        record = stored.record
        self.handle = stored.handle
        self.number = record.run
        self.owner, self.tool_name = record.limited_as, record.tool
        self._tasks = tasks
        self._stored = stored
        self._tool = tool
        self._revision = REVISIONS[record.revision]
        self._writing = asyncio.Lock()
        self._answered = asyncio.Event()
        self._message: str | None = None
        self._reporting: asyncio.TimerHandle | None = None
        self._reported = float("-inf")
        self._stopped = self._ended = False
        self.driver: asyncio.Task[None] | None = None
        """The task of `drive`."""
        self.waiting = False
        """True while the handler waits for answers."""
        self.holds_place = True
        """True while the run counts as one that runs."""
        self.lapses = 0
        """The lapses of this process's heartbeat when the task was last known to be its own."""
        call = self._call = TaskCall(tasks.core, record, self.report, origin)
        self._suspendable: SuspendableCall | None = None
        """None for a handler without a context, which can neither ask nor have steps."""
        if running is not None:
            self._suspendable, self._invocation = running
            self._suspendable.recorder = self
            self._invocation.resume(call)
        else:
            self._invocation = Invocation(tasks.core, call)
            if tool.binding.context_name is not None:
                self._suspendable = self._begin(record)

    def _begin(self, record: TaskRecord) -> SuspendableCall:
        """Begin the handler, with the answers and steps of earlier runs."""
        journal, invocation = Journal(dict(record.journal)), self._invocation
        # A handler that returns its questions may have good reason not to ask again what it asked before that.
        by_hand = record.by_hand or record.heard or record.state is not None
        unused: set[str] = set() if by_hand else journal.answers()
        suspendable = SuspendableCall(self._revision, journal, unused, self)
        invocation.suspendable, invocation.request_state = suspendable, record.state
        heard = record.heard.items()
        invocation.answers = {key: load_answer(self._revision, method, raw) for key, (method, raw) in heard}
        suspendable.start(functools.partial(self._tool.invoke, invocation, record.arguments))
        return suspendable

    @property
    def record(self) -> TaskRecord:
        """The record as this run last wrote or read it."""
        return self._stored.record

    @property
    def is_stopped(self) -> bool:
        """True once the run is over because of what others did."""
        return self._stopped

    @property
    def may_move(self) -> bool:
        """True if another process may go on with the task."""
        return self.waiting or self.record.resume

    async def drive(self) -> None:
        """Run the handler to its end, or until the run is stopped."""
        try:
            while not self._stopped:
                outcome = await self._outcome()
                if outcome is None:
                    return
                if isinstance(outcome, dict):
                    if not await self._wait_for_answers():
                        return
                elif isinstance(outcome, InputRequired):
                    await self._ask_by_hand(outcome)
                    return
                else:
                    await self._end(outcome)
                    return
        finally:
            if self._reporting is not None:
                self._reporting.cancel()
            # Otherwise the run, its call and its task would be a cycle that waits for a garbage collection.
            self.driver = None
            self._call.end_reports()
            if self._suspendable is not None:
                await self._suspendable.stop()
                self._suspendable.recorder = None

    async def _outcome(self) -> Value | ProtocolError | dict[str, InputRequest] | None:
        """The result of the handler, its error, or its questions; None if the run was stopped."""
        try:
            if self._suspendable is None:
                outcome = await self._tool.invoke(self._invocation, self.record.arguments)
            else:
                outcome = await self._suspendable.outcome()
            assert not isinstance(outcome, bytes)  # the handler of a tool returns a value
            if isinstance(outcome, InputRequired):
                self._invocation.check(outcome)
        except Exception as problem:
            return None if self._stopped else as_protocol_error(self._call, problem)
        return outcome

    async def _end(self, outcome: Value | ProtocolError) -> None:
        self._ended = True
        now = self._tasks.clock()
        if isinstance(outcome, ProtocolError):
            await self._fail(outcome)
            return
        result = self._tasks.core.emit_result(self._revision, "tools/call", outcome)
        message = _failure(result) or self._message
        try:
            await self._write(
                lambda record: record.change(Event.RETURNED, now, message or record.message, result=result)
            )
        except ProtocolError as too_large:
            await self._fail(too_large)

    async def _fail(self, problem: ProtocolError) -> None:
        error = TaskError(self._revision.code_of(problem.code), problem.message, problem.data)
        now = self._tasks.clock()
        await self._write(lambda record: record.change(Event.RAISED, now, problem.message, error=error))

    async def _ask_by_hand(self, asked: InputRequired) -> None:
        """Show the questions that a handler has returned; it begins again when they are answered."""
        questions = {
            key: TaskQuestion(method_of(question), self._params(question), "")
            for key, question in (asked.requests or {}).items()
        }

        def ask(record: TaskRecord) -> TaskRecord | None:
            message, now = self._message or record.message, self._tasks.clock()
            journal = {} if self._suspendable is None else dict(self._suspendable.journal.entries)
            fields: dict[str, Any] = {"journal": journal, "worker": "", "by_hand": True, "state": asked.state}
            return record.change(Event.ASKED, now, message, questions=questions, heard={}, **fields)

        if await self._write(ask):
            await self._tasks.suspended(self, keeps=False)

    async def _wait_for_answers(self) -> bool:
        """Show the questions to the client and wait; False if the handler has to be begun again for the answers."""
        tasks, suspendable = self._tasks, self._suspendable
        assert suspendable is not None
        # A plain function would hold its thread, and a call that counts against a limit its place.
        keeps = self._tool.unlimited and tasks.keeps_handlers
        asked = {
            key: TaskQuestion(method_of(question), self._params(question), digest)
            for key, (question, digest) in suspendable.open_questions.items()
        }
        self.waiting = True
        self._answered.clear()

        def ask(record: TaskRecord) -> TaskRecord | None:
            journal = {**record.journal, **suspendable.journal.entries}
            if asked.keys() & record.journal.keys():
                # Some were shown before, and answered while the handler was busy with other answers.
                return record.replace(record.updated, journal=journal)
            return record.change(
                Event.ASKED,
                tasks.clock(),
                self._message or record.message,
                questions=asked,
                by_hand=False,
                journal=journal,
                worker="",
                keeper=tasks.worker if keeps else "",
            )

        if not await self._write(ask):
            return False
        if asked.keys() & self.record.journal.keys():
            self.waiting = False
            self._give_answers()
            return True
        await tasks.suspended(self, keeps=keeps)
        if not keeps:
            return False
        return await self._until_answered()

    def _params(self, question: InputRequest) -> dict[str, Any] | None:
        return None if question.params is None else self._revision.emit(question.params)

    async def _until_answered(self) -> bool:
        """Wait for answers, or until the handler stops waiting by itself; False if the run is over."""
        assert self._suspendable is not None
        ended = asyncio.ensure_future(self._suspendable.until_ended())
        answered = asyncio.ensure_future(self._answered.wait())
        try:
            await asyncio.wait({ended, answered}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ended.cancel()
            answered.cancel()
        if self._stopped or not await self._tasks.resumed(self):
            return False
        self.waiting = False
        self._give_answers()
        return True

    def _give_answers(self) -> None:
        """Resume the handler with the answers that the record has and the handler waits for."""
        journal = self.record.journal
        assert self._suspendable is not None
        answers: dict[str, tuple[Any, Value]] = {}
        for key, (question, _) in self._suspendable.open_questions.items():
            if key in journal:
                raw = journal[key].value
                answers[key] = raw, load_answer(self._revision, method_of(question), raw)
        if answers:
            self._suspendable.resume(answers)

    def changed(self, stored: StoredTask) -> None:
        """The record was changed by somebody else: it has answers, or the task has ended or is run elsewhere."""
        record = stored.record
        if self._ended:
            return
        if record.is_ended or record.run != self.number:
            self.stop()
        elif (
            self.waiting and self._suspendable is not None and self._suspendable.open_questions.keys() & record.journal
        ):
            self._stored = stored
            self._answered.set()

    async def claim(self) -> bool:
        """Become the process that runs the task again, after its handler waited here."""
        worker = self._tasks.worker

        def make(record: TaskRecord) -> TaskRecord | None:
            if record.worker not in ("", worker):
                return None
            return record.replace(record.updated, worker=worker, keeper="")

        return await self._write(make)

    def stop(self) -> None:
        """End the run: its task was cancelled, has ended, or is run elsewhere."""
        if not self._stopped:
            self._stopped = self._call.silent = True
            self._answered.set()
            if self._suspendable is not None:
                self._suspendable.cancel()
            elif self.driver is not None and self.driver is not asyncio.current_task():
                self.driver.cancel()

    async def before_step(self) -> None:
        """Refuse to run a step for a task that another process may have taken over."""
        if not await self._tasks.may_go_on(self):
            self.stop()
            raise asyncio.CancelledError

    async def after_step(self) -> None:
        """Keep the outcome of a step: from then on it never runs again."""
        assert self._suspendable is not None
        entries = self._suspendable.journal.entries
        # The record may have answers that the handler has not been given yet.
        now = self._tasks.clock()
        if not await self._write(lambda record: record.replace(now, journal={**record.journal, **entries})):
            raise asyncio.CancelledError

    async def renew(self) -> None:
        """Keep the task from expiring while it runs."""
        if not self._stopped:
            await self._write(lambda record: record.replace(self._tasks.clock()), patient=False)

    async def report(self, message: str) -> None:
        """Change the status message, at most every half second in the store."""
        if self._suspendable is not None and self._suspendable.is_replaying:
            return
        self._message = message
        if self._reporting is None:
            loop = asyncio.get_running_loop()
            due = max(self._reported + STATUS_SECONDS, loop.time())
            if due <= loop.time():
                await self._write_message()
            else:
                self._reporting = loop.call_at(due, lambda: self._tasks.spawn(self._write_message()))

    async def _write_message(self) -> None:
        self._reporting = None
        self._reported = asyncio.get_running_loop().time()
        message = self._message

        def make(record: TaskRecord) -> TaskRecord | None:
            if record.is_ended or record.message == message:
                return None
            return record.replace(self._tasks.clock(), message=message, version=record.version + 1)

        with contextlib.suppress(StoreError):  # the next message, or the end, replaces it
            await self._write(make, patient=False)

    async def _write(self, make: Callable[[TaskRecord], TaskRecord | None], *, patient: bool = True) -> bool:
        """Change the record unless the run is over; while the store does not work, wait for it.

        False if the change does not apply; if that is because the run is over, the handler is stopped.
        """
        pause, again = _RETRY_SECONDS, False
        async with self._writing:
            while not self._stopped:
                try:
                    done = await self._tasks.change(self.handle, self._checked(make), self._stored)
                except StoreError as problem:
                    if not patient:
                        raise
                    if not again:
                        logger.warning("A task cannot be written now, and is tried again: %s", problem)
                    await asyncio.sleep(pause)
                    pause, again = min(2 * pause, _MAX_RETRY_SECONDS), True
                    continue
                if again:
                    self._tasks.announce(self.handle)  # what seemed to fail may have been written all the same
                if done is not None:
                    self._stored = done
                return done is not None
        return False

    def _checked(self, make: Callable[[TaskRecord], TaskRecord | None]) -> Callable[[TaskRecord], TaskRecord | None]:
        def checked(record: TaskRecord) -> TaskRecord | None:
            if record.is_ended or record.run != self.number:
                self.stop()
                return None
            return make(record)

        return checked


def _failure(result: dict[str, Any]) -> str | None:
    """The beginning of what a result with `isError` says: on 2025-11-25 the status message of a failure tells why."""
    if not result.get("isError"):
        return None
    texts = [block["text"] for block in result["content"] if block["type"] == "text"]
    return texts[0][:_FAILURE_TEXT] if texts else "The tool failed"
