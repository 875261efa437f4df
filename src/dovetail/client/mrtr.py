"""Answering in rounds: a result that asks back leads to the same request once more, with the answers.

2026-07-28 basic/patterns/mrtr, "Client Requirements".
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from dovetail.protocol.errors import InvalidAnswer, ProtocolError, Refused
from dovetail.protocol.revisions.revision import Revision
from dovetail.types.base import RetriedParams
from dovetail.types.capabilities import Implementation
from dovetail.types.client_features import InputRequest, InputRequired, method_of

from .server_requests import RequestHandlers

MAX_ROUNDS = 10
MAX_QUESTIONS = 64
"""Questions in one round; more are not asked."""

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 5.0

T = TypeVar("T")


class InputRounds:
    """The rounds of one call."""

    def __init__(
        self, method: str, handlers: RequestHandlers, revision: Revision, server: Implementation | None, limit: int
    ) -> None:
        self._method = method
        self._handlers = handlers
        self._revision = revision
        self._server = server
        self._limit = limit
        self._rounds = 0
        self._pause = 0.0

    async def answer(self, asked: InputRequired) -> dict[str, Any]:
        """What to send with the next request: the answers, and the state exactly as it was given, if any."""
        self._rounds += 1
        if self._rounds > self._limit:
            raise Refused(f"{self._method} asked for input more than {self._limit} times")
        if not asked.requests and asked.state is None:
            raise InvalidAnswer(f"{self._method} asked for input without saying which")
        more: dict[str, Any] = {}
        if asked.requests:
            self._pause = 0.0
            more["inputResponses"] = await self._answer_all(asked.requests)
        else:
            await self._wait_a_little()
        if asked.state is not None:
            more["requestState"] = asked.state
        return more

    async def _answer_all(self, questions: dict[str, InputRequest]) -> dict[str, Any]:
        if len(questions) > MAX_QUESTIONS:
            raise Refused(f"{self._method} asked {len(questions)} questions at once")
        for question in questions.values():
            # First of all: a person is not to answer what then leads nowhere.
            self._handlers.check(method_of(question), self._revision)
        answers = await gather_or_cancel([self._answer(question) for question in questions.values()])
        return dict(zip(questions, answers, strict=True))

    async def _answer(self, question: InputRequest) -> dict[str, Any]:
        method = method_of(question)
        try:
            value = await self._handlers.answer(method, question.params, self._revision, self._server)
        except ProtocolError as problem:
            raise InvalidAnswer(f"{self._method} asked what it may not ask: {problem.message}") from problem
        return self._revision.emit_result(method, value)

    async def _wait_a_little(self) -> None:
        """A server that only wants to be asked again is, at once the first time, then less and less often."""
        await asyncio.sleep(self._pause)
        self._pause = min(self._pause * 2, LONGEST_PAUSE) or FIRST_PAUSE


def supports_input_required(revision: Revision, method: str) -> bool:
    """Whether a request of this method may be answered with questions ("Supported Requests")."""
    entry = revision.methods.get(method)
    return entry is not None and issubclass(entry.params, RetriedParams)


async def gather_or_cancel(work: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """The outcomes of all, in order; the first failure, or a cancellation, stops the others."""
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise
