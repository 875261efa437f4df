"""A handler that asks, on a revision where asking ends the request: it waits here until the answers come.

The handler runs in a task of its own, because it may outlive the request that started it. When it waits for
answers and nothing else goes on, the round is closed: the request is answered with the questions. A retry
that finds the handler still here hands it the answers and it goes on; elsewhere the journal lets it run again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

from dovetail.protocol.errors import INTERNAL_ERROR, INVALID_PARAMS, InvalidAnswer, ProtocolError, RemoteError
from dovetail.protocol.mrtr import Asked, Entry, Journal, digest
from dovetail.protocol.revisions.revision import Revision
from dovetail.runtime.call import Call
from dovetail.types.client_features import InputRequest, method_of
from dovetail.types.serialization import Value
from dovetail.types.tools import CallToolResult

from .branches import Lanes
from .steps import Work, outcome_of, take_step

QUIET_TURNS = 3
"""Turns of the loop without a new question or a running step, after which a round is closed."""


class Interview:
    """One handler, its journal, and the questions it waits for."""

    def __init__(self, revision: Revision, journal: Journal, unheard: set[str]) -> None:
        self._revision = revision
        self.journal = journal
        self._unheard = unheard
        """Answers that came for an earlier run of the handler, and that this run has not asked for yet."""
        self.loop = asyncio.get_running_loop()
        self._lanes: Lanes | None = None
        self._open: dict[str, tuple[InputRequest, str, asyncio.Future[Any]]] = {}
        self._steps = 0
        self._activity = 0
        self._closed = False
        self._reopened: asyncio.Event | None = None
        self._round: asyncio.Future[None] = self.loop.create_future()
        self._handler: asyncio.Task[None] | None = None
        self._result: Value | None = None
        self._problem: Exception | None = None
        self.follow: Callable[[Call], None] = _nobody
        """Tells the handler's context which request it serves now."""

    def start(self, handler: Callable[[], Awaitable[Value]]) -> None:
        """Begin to run the handler."""

        async def run() -> None:
            # What came of it is kept here and not in the task: nobody may come for it, and a task that was
            # cancelled too late has forgotten what it returned.
            try:
                self._result = await handler()
            except Exception as problem:
                self._problem = problem
            finally:
                self.follow = _nobody
                self._end_round()

        self._handler = asyncio.create_task(run(), name="dovetail-interview")

    async def outcome(self) -> Value | dict[str, InputRequest]:
        """Wait for the result, or for the questions that have to be answered first."""
        assert self._handler is not None
        await self._round
        if not self._handler.done():
            return {key: question for key, (question, _, _) in self._open.items()}
        result = self._result
        if self._problem is not None or result is None:
            raise self._problem or RuntimeError("A handler ended without a result")
        if self._unheard and not (isinstance(result, CallToolResult) and result.is_error):
            raise ProtocolError(
                INTERNAL_ERROR, f"Nobody asked for the answer {min(self._unheard)!r}: the handler took another way"
            )
        return result

    @property
    def asked(self) -> dict[str, Asked]:
        """The open questions."""
        return {key: Asked(method_of(question), name) for key, (question, name, _) in self._open.items()}

    def go_on(self, answers: dict[str, tuple[Any, Value]], call: Call) -> None:
        """Hand over answers that came with another request, each raw and as a value; open the next round.

        Questions without an answer stay open and are asked again. An answer that the handler does not wait for
        any more, because it went on by itself meanwhile, is dropped.
        """
        self.follow(call)
        self._round = self.loop.create_future()
        self._closed = False
        for key in [key for key in self._open if key in answers]:
            _, name, future = self._open.pop(key)
            raw, value = answers[key]
            self.journal.write(key, Entry(name, raw))
            if not future.done():
                future.set_result(value)
        if self._reopened is not None:
            self._reopened.set()
        if self._handler is not None and self._handler.done():
            self._end_round()
        self._stir()

    def cancel(self) -> None:
        """Stop the handler; safe from any thread."""
        if self._handler is not None:
            with contextlib.suppress(RuntimeError):  # its loop is closed, so it is stopped
                self.loop.call_soon_threadsafe(self._handler.cancel)

    async def stop(self) -> None:
        """Stop the handler and wait until it has cleaned up."""
        if self._handler is not None and not self._handler.done():
            self._handler.cancel()
            await asyncio.wait([self._handler])

    async def ask(self, question: InputRequest, key: str | None) -> Any:
        """The client's answer to a question, now, from the journal, or in a later round."""
        method = method_of(question)
        name = digest(method, self._revision.emit(question.params) if question.params is not None else None)
        key = self.journal.key(name, key, self._lane(name))
        entry = self.journal.find(key, name)
        if entry is not None:
            self._unheard.discard(key)
            await self._let_others()
            return load_answer(self._revision, method, entry.value)
        future: asyncio.Future[Any] = self.loop.create_future()
        self._open[key] = (question, name, future)
        self._stir()
        try:
            return await future
        finally:
            self._open.pop(key, None)

    async def step(self, name: str, work: Work) -> Any:
        """The outcome of some work that runs once over all rounds; its result must be JSON."""
        token = digest("step", name)
        key = self.journal.key(token, lane=self._lane(token))
        entry = self.journal.find(key, token)
        if entry is not None:
            await self._let_others()
            return outcome_of(name, entry)
        while self._closed:
            await self._opened()
        self._steps += 1
        try:
            entry, problem = await take_step(work, token)
            self.journal.write(key, entry)
        finally:
            self._steps -= 1
            self._stir()
        return outcome_of(name, entry, problem)

    def _lane(self, doing: str) -> str:
        if self._lanes is None:
            assert self._handler is not None
            self._lanes = Lanes(self._handler)
        return self._lanes.here(doing)

    async def _let_others(self) -> None:
        """Take a turn as anything that has to be waited for does, so that branches run as they did before."""
        self._stir()
        await asyncio.sleep(0)

    async def _opened(self) -> None:
        if self._reopened is None:
            self._reopened = asyncio.Event()
        self._reopened.clear()
        await self._reopened.wait()

    def _stir(self) -> None:
        """Something happened: count the quiet turns anew."""
        self._activity += 1
        if self._open and not self._steps and not self._closed:
            self.loop.call_soon(self._listen, self._activity, QUIET_TURNS)

    def _listen(self, activity: int, turns: int) -> None:
        if activity != self._activity or self._closed or self._steps or not self._open:
            return
        if turns:
            self.loop.call_soon(self._listen, activity, turns - 1)
        else:
            self._closed = True
            self._end_round()

    def _end_round(self) -> None:
        if not self._round.done():
            self._round.set_result(None)


def _nobody(_: Call) -> None:
    """Nobody follows a handler that has not begun or has ended."""


def load_answer(revision: Revision, method: str, raw: Any) -> Value:
    """An answer as the value that its question calls for; one that cannot be read is −32602."""
    try:
        return revision.load_result(method, raw)
    except (RemoteError, InvalidAnswer) as problem:
        raise ProtocolError(INVALID_PARAMS, f"An input response cannot be read: {problem}") from None
