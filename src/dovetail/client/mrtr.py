"""Multi round-trip requests: a result that asks for input leads to the same request again, with the answers.

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
MAX_INPUT_REQUESTS = 64
"""Input requests in one round; a result with more is refused."""

FIRST_DELAY = 0.1
MAX_DELAY = 5.0

T = TypeVar("T")


class InputRounds:
    """The rounds of one request."""

    def __init__(
        self, method: str, handlers: RequestHandlers, revision: Revision, server: Implementation | None, limit: int
    ) -> None:
        self._method = method
        self._handlers = handlers
        self._revision = revision
        self._server = server
        self._limit = limit
        self._rounds = 0
        self._delay = 0.0

    async def answer(self, required: InputRequired) -> dict[str, Any]:
        """The params to add to the next request: the answers, and the state exactly as the server gave it."""
        self._rounds += 1
        if self._rounds > self._limit:
            raise Refused(f"{self._method} asked for input more than {self._limit} times")
        if not required.requests and required.state is None:
            raise InvalidAnswer(f"{self._method} asked for input without saying which")
        params: dict[str, Any] = {}
        if required.requests:
            self._delay = 0.0
            params["inputResponses"] = await self._answer_all(required.requests)
        else:
            await self._back_off()
        if required.state is not None:
            params["requestState"] = required.state
        return params

    async def _answer_all(self, requests: dict[str, InputRequest]) -> dict[str, Any]:
        if len(requests) > MAX_INPUT_REQUESTS:
            raise Refused(f"{self._method} asked {len(requests)} questions at once")
        for request in requests.values():
            # Before any of them is handled: a user must not answer one when another makes the call fail.
            self._handlers.check(method_of(request), self._revision)
        answers = await gather_or_cancel([self._answer(request) for request in requests.values()])
        return dict(zip(requests, answers, strict=True))

    async def _answer(self, request: InputRequest) -> dict[str, Any]:
        method = method_of(request)
        try:
            value = await self._handlers.handle(method, request.params, self._revision, self._server)
        except ProtocolError as problem:
            raise InvalidAnswer(f"{self._method} asked what it may not ask: {problem.message}") from problem
        return self._revision.emit_result(method, value)

    async def _back_off(self) -> None:
        """Wait before a request that only polls: not at all the first time, then longer each time."""
        await asyncio.sleep(self._delay)
        self._delay = min(self._delay * 2, MAX_DELAY) or FIRST_DELAY


def supports_input_required(revision: Revision, method: str) -> bool:
    """True if a request of this method may be answered with input requests ("Supported Requests")."""
    entry = revision.methods.get(method)
    return entry is not None and issubclass(entry.params, RetriedParams)


async def gather_or_cancel(work: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """The outcomes of all, in order; the first failure, or a cancellation, cancels the others."""
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise
