"""Questions to the user: asked through callbacks, and withdrawn when their answer is not needed any more."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Generator
from typing import Any, TypeAlias

import msgspec

from dovetail.client.elicitation import ElicitAnswer, Elicitation
from dovetail.host.events import HostEvent, OnEvent
from dovetail.host.running_work import RunningWork
from dovetail.policy.approval_questions import (
    No,
    OnApprove,
    Question,
    RootsQuestion,
    SamplingAnswerQuestion,
    SamplingQuestion,
    Yes,
)
from dovetail.protocol.errors import DovetailError, LocalError, Refused
from dovetail.runtime.thread_pool import ThreadPool

logger = logging.getLogger("dovetail")

OnHostElicit: TypeAlias = "Callable[[str, Elicitation], ElicitAnswer | Awaitable[ElicitAnswer]]"
"""Takes the key of the server that asks, and what it asks: a `HostElicitation`."""


class HostElicitation(Elicitation, frozen=True, kw_only=True):
    """An elicitation of a server, with warnings for the user."""

    key: str
    """Of the server in the configuration."""
    concerns: tuple[str, ...] = ()
    task: Any = None
    """The `HostTask` that asks, if it is in the background: nobody waits for the answer but the task."""


_THEIRS = (HostElicitation, SamplingQuestion, SamplingAnswerQuestion, RootsQuestion)
"""Questions that come of what a server asks; of those there may be only so many."""


class UserPrompts:
    """Asks the user; several questions may be open at once."""

    def __init__(
        self,
        on_approve: OnApprove | None,
        on_elicit: OnHostElicit | None,
        emit: OnEvent,
        most_each: int,
        thread_pool: ThreadPool,
    ) -> None:
        self._on_approve = on_approve
        self._on_elicit = on_elicit
        self._emit = emit
        self._most_each = most_each
        self._thread_pool = thread_pool
        self._open: Counter[str] = Counter()
        self.questions = RunningWork()

    @property
    def approves(self) -> bool:
        """True if there is somebody to ask for consent."""
        return self._on_approve is not None

    @property
    def answers(self) -> bool:
        """True if there is somebody to answer servers."""
        return self._on_elicit is not None

    async def approve(self, question: Question) -> Yes | No:
        """The user's answer to a question of ours."""
        assert self._on_approve is not None
        try:
            reply = await self._put(question.server, question, functools.partial(self._on_approve, question))
        except DovetailError:
            raise
        except Exception as problem:
            logger.exception("on_approve failed")
            raise Refused(f"The user could not be asked: {type(problem).__name__}: {problem}") from problem
        if isinstance(reply, bool):
            return Yes() if reply else No()
        if not isinstance(reply, (Yes, No)):
            raise LocalError(f"on_approve returns Yes(…), No(…), True or False, not {reply!r}")
        return reply

    async def elicit(self, asked: HostElicitation) -> ElicitAnswer:
        """The user's answer to a server's question."""
        assert self._on_elicit is not None
        try:
            return await self._put(asked.key, asked, functools.partial(self._on_elicit, asked.key, asked))
        except DovetailError:
            raise
        except Exception as problem:
            logger.exception("on_elicit failed")
            raise Refused("The user could not be asked") from problem

    async def _put(self, server: str, question: msgspec.Struct, function: Callable[[], Any]) -> Any:
        if isinstance(question, _THEIRS):
            with self._turn(server):
                return await self._ask(server, question, function)
        return await self._ask(server, question, function)

    @contextlib.contextmanager
    def _turn(self, server: str) -> Generator[None]:
        """One of the questions that a server may have open at once."""
        if self._open[server] >= self._most_each:
            raise Refused(f"The server {server!r} has {self._most_each} questions open already")
        self._open[server] += 1
        try:
            yield
        finally:
            self._open[server] -= 1

    async def _ask(self, server: str, question: msgspec.Struct, function: Callable[[], Any]) -> Any:
        with self.questions.piece("the question", server):
            self._emit(HostEvent(kind="question", server=server, detail=question))
            try:
                # In a thread unless it is async: waiting for the user blocks nobody else.
                return await self._thread_pool.call_any(function)
            except asyncio.CancelledError:
                self._emit(HostEvent(kind="withdrawn", server=server, detail=question))
                raise
