"""A handler that asks for input on a revision where asking ends the request: it is suspended until the answers come.

The handler runs in a task of its own, because it may outlive the request that started it. When it waits for answers and
nothing else goes on, the round is closed: the request is answered with the questions. A retry that reaches this process
resumes the handler with the answers; in another process the handler runs again and the journal answers what was
answered.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from dovetail.protocol.errors import INTERNAL_ERROR, INVALID_PARAMS, InvalidAnswer, ProtocolError, RemoteError
from dovetail.protocol.mrtr import Journal, JournalEntry, PendingInput, digest
from dovetail.protocol.revisions.revision import Revision
from dovetail.types.client_features import InputRequest, method_of
from dovetail.types.serialization import Value
from dovetail.types.tools import CallToolResult

from .branches import Branches
from .steps import Step, run_step, step_result

QUIET_TURNS = 3
"""Turns of the loop without a new question or a running step, after which a round is closed."""


class State(enum.Enum):
    """The states of a call that can be suspended."""

    RUNNING = "the handler runs; a request waits for its outcome"
    SUSPENDED = "the handler waits for answers; no request waits for it"
    ENDED = "the handler has returned or failed"


class Event(enum.Enum):
    """The events that change them."""

    QUIET = "open questions, and nothing else to do"
    ANSWERED = "a later request brings answers"
    FINISHED = "the handler returns or fails"


TRANSITIONS: dict[tuple[State, Event], State] = {
    (State.RUNNING, Event.QUIET): State.SUSPENDED,
    (State.RUNNING, Event.FINISHED): State.ENDED,
    (State.SUSPENDED, Event.ANSWERED): State.RUNNING,
    # It gave up waiting by itself, with a timeout of its own.
    (State.SUSPENDED, Event.FINISHED): State.ENDED,
    # The answers came after that: the request gets the outcome that is there.
    (State.ENDED, Event.ANSWERED): State.ENDED,
}


class StepRecorder(Protocol):
    """Keeps the journal of a call that outlives its process."""

    async def before_step(self) -> None:
        """A step is about to run."""
        ...

    async def after_step(self) -> None:
        """The outcome of a step is in the journal; the handler gets it when this returns."""
        ...


class SuspendableCall:
    """One handler, its journal, and the questions it waits for."""

    def __init__(
        self, revision: Revision, journal: Journal, unused: set[str], recorder: StepRecorder | None = None
    ) -> None:
        self._revision = revision
        self.journal = journal
        self.recorder = recorder
        self._unused = unused
        """Answers from earlier rounds that this run of the handler has not asked for yet."""
        self._unused_steps = {key for key, entry in journal.entries.items() if entry.step}
        """Steps of an earlier run that this one has not come to; empty once it does something new."""
        self.loop = asyncio.get_running_loop()
        self.state = State.RUNNING
        self._branches: Branches | None = None
        self._open: dict[str, tuple[InputRequest, str, asyncio.Future[Any]]] = {}
        self._steps = 0
        self._activity = 0
        self._resumed: asyncio.Event | None = None
        self._round: asyncio.Future[None] = self.loop.create_future()
        self._handler: asyncio.Task[None] | None = None
        self._result: Value | bytes | None = None
        self._problem: Exception | None = None

    def start(self, handler: Callable[[], Awaitable[Value | bytes]]) -> None:
        """Begin to run the handler."""
        self._handler = asyncio.create_task(self._run(handler), name="dovetail-handler")

    async def _run(self, handler: Callable[[], Awaitable[Value | bytes]]) -> None:
        # The outcome is kept here and not in the task: perhaps no request comes for it, and a task that was cancelled
        # too late has forgotten what it returned.
        try:
            self._result = await handler()
        except Exception as problem:
            self._problem = problem
        finally:
            self._change(Event.FINISHED)
            self._end_round()

    async def outcome(self) -> Value | bytes | dict[str, InputRequest]:
        """Wait for the result, or for the questions that have to be answered first."""
        assert self._handler is not None
        await self._round
        if not self._handler.done():
            return {key: question for key, (question, _, _) in self._open.items()}
        result = self._result
        if self._problem is not None or result is None:
            raise self._problem or RuntimeError("A handler ended without a result")
        if self._unused and not _is_failed(result):
            raise ProtocolError(
                INTERNAL_ERROR, f"The handler took another path: it did not ask for the answer {min(self._unused)!r}"
            )
        return result

    @property
    def open_questions(self) -> dict[str, tuple[InputRequest, str]]:
        """The open questions, each with the digest of its content."""
        return {key: (question, name) for key, (question, name, _) in self._open.items()}

    async def until_round_ends(self, seconds: float) -> bool:
        """Wait so long at most until there is an outcome; True if there is one."""
        try:
            done, _ = await asyncio.wait([self._round], timeout=seconds)
        except asyncio.CancelledError:
            await self.stop()
            raise
        return bool(done)

    async def until_ended(self) -> None:
        """Wait until the handler has returned or failed, whatever requests do meanwhile."""
        if self._handler is not None:
            await asyncio.wait([self._handler])

    @property
    def is_replaying(self) -> bool:
        """True until a handler that runs again has come to the last answer or step that it had before."""
        return bool(self._unused or self._unused_steps)

    @property
    def asked(self) -> dict[str, PendingInput]:
        """The open questions."""
        return {key: PendingInput(method_of(question), name) for key, (question, name, _) in self._open.items()}

    def resume(self, answers: dict[str, tuple[Any, Value]]) -> None:
        """Give the handler answers that came with another request, each raw and as a value; open the next round.

        Questions without an answer stay open and are asked again. An answer that the handler does not wait for
        any more, because it went on by itself meanwhile, is dropped.
        """
        self._change(Event.ANSWERED)
        self._round = self.loop.create_future()
        for key in [key for key in self._open if key in answers]:
            _, name, future = self._open.pop(key)
            raw, value = answers[key]
            self.journal.write(key, JournalEntry(name, raw))
            if not future.done():
                future.set_result(value)
        if self._resumed is not None:
            self._resumed.set()
        if self.state is State.ENDED:
            self._end_round()
        self._active()

    def cancel(self) -> None:
        """Cancel the handler; safe from any thread."""
        if self._handler is not None:
            with contextlib.suppress(RuntimeError):  # its loop is closed, so it is stopped
                self.loop.call_soon_threadsafe(self._handler.cancel)

    async def stop(self) -> None:
        """Cancel the handler and wait until it has cleaned up."""
        if self._handler is not None and not self._handler.done():
            self._handler.cancel()
            await asyncio.wait([self._handler])

    async def ask(self, question: InputRequest, key: str | None) -> Any:
        """The client's answer to a question, from the journal or in a later round."""
        method = method_of(question)
        name = digest(method, self._revision.emit(question.params) if question.params is not None else None)
        key = self.journal.key(name, key, self._branch(name))
        entry = self.journal.find(key, name)
        if entry is not None:
            self._unused.discard(key)
            await self._yield()
            return load_answer(self._revision, method, entry.value)
        self._unused_steps.clear()
        future: asyncio.Future[Any] = self.loop.create_future()
        self._open[key] = (question, name, future)
        self._active()
        try:
            return await future
        finally:
            self._open.pop(key, None)

    async def step(self, name: str, step: Step) -> Any:
        """The result of a step, which runs once over all rounds; it must be JSON."""
        token = digest("step", name)
        key = self.journal.key(token, lane=self._branch(token))
        entry = self.journal.find(key, token)
        if entry is not None:
            self._unused_steps.discard(key)
            await self._yield()
            return step_result(name, entry)
        self._unused_steps.clear()
        while self.state is State.SUSPENDED:
            await self._until_resumed()
        self._steps += 1
        try:
            if self.recorder is not None:
                await self.recorder.before_step()
            entry, problem = await run_step(step, token)
            self.journal.write(key, entry)
            if self.recorder is not None:
                await self.recorder.after_step()
        finally:
            self._steps -= 1
            self._active()
        return step_result(name, entry, problem)

    def _change(self, event: Event) -> None:
        self.state = TRANSITIONS[self.state, event]

    def _branch(self, name: str) -> str:
        if self._branches is None:
            assert self._handler is not None
            self._branches = Branches(self._handler)
        return self._branches.current(name)

    async def _yield(self) -> None:
        """Give up the turn as a real wait would, so that branches run in the same order as in the first run."""
        self._active()
        await asyncio.sleep(0)

    async def _until_resumed(self) -> None:
        if self._resumed is None:
            self._resumed = asyncio.Event()
        self._resumed.clear()
        await self._resumed.wait()

    def _active(self) -> None:
        """Something happened: count the quiet turns from zero."""
        self._activity += 1
        if self._open and not self._steps and self.state is State.RUNNING:
            self.loop.call_soon(self._count_quiet_turns, self._activity, QUIET_TURNS)

    def _count_quiet_turns(self, activity: int, turns: int) -> None:
        if activity != self._activity or self.state is not State.RUNNING or self._steps or not self._open:
            return
        if turns:
            self.loop.call_soon(self._count_quiet_turns, activity, turns - 1)
        else:
            self._change(Event.QUIET)
            self._end_round()

    def _end_round(self) -> None:
        if not self._round.done():
            self._round.set_result(None)


def _is_failed(result: Value | bytes) -> bool:
    return isinstance(result, CallToolResult) and bool(result.is_error)


def load_answer(revision: Revision, method: str, raw: Any) -> Value:
    """An answer as the value that its question calls for; one that cannot be read is −32602."""
    try:
        return revision.load_result(method, raw)
    except (RemoteError, InvalidAnswer) as problem:
        raise ProtocolError(INVALID_PARAMS, f"An input response cannot be read: {problem}") from None
