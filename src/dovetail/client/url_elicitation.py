"""Calls that a server refuses until the user has opened a page (2025-11-25 client/elicitation, −32042)."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

import msgspec

from dovetail.protocol.errors import URL_ELICITATION_REQUIRED, InvalidAnswer, ProtocolError, Refused, RemoteError
from dovetail.protocol.revisions.revision import Revision
from dovetail.types.capabilities import Implementation
from dovetail.types.client_features import ElicitParams, ElicitResult
from dovetail.types.serialization import load

from .mrtr import MAX_INPUT_REQUESTS, gather_or_cancel
from .server_requests import RequestHandlers

COMPLETE = "notifications/elicitation/complete"
MAX_COMPLETED = 1000
"""Ids of completed elicitations that are kept for calls that have not asked yet; the oldest are dropped."""


class RequiredUrlElicitations:
    """Runs the URL elicitations that a refused call requires, and waits for their completion."""

    def __init__(self, handlers: RequestHandlers) -> None:
        self._handlers = handlers
        self._completed: deque[str] = deque(maxlen=MAX_COMPLETED)
        self._changed = asyncio.Event()

    def notified(self, method: str, params: dict[str, Any]) -> None:
        """Note that an elicitation is complete; unknown ids do no harm."""
        id = params.get("elicitationId")
        if method == COMPLETE and isinstance(id, str):
            self._completed.append(id)
            self._changed.set()

    async def run(
        self, refusal: RemoteError, revision: Revision, server: Implementation | None, seconds: float | None
    ) -> None:
        """Ask the user to open the pages that a refusal names, and wait for the notifications of completion.

        A server need not send them, so after some seconds the call is tried again all the same.
        """
        elicitations = _required_elicitations(refusal)
        if len(elicitations) > MAX_INPUT_REQUESTS:
            wanted = f"The server wants {len(elicitations)} pages opened for one call"
            raise Refused(f"{wanted}; at most {MAX_INPUT_REQUESTS} are allowed")
        for params in elicitations:
            if params.mode != "url" or params.elicitation_id is None:
                raise InvalidAnswer("The server refuses a call until a page is visited, and names no page")
        handling = [self._handlers.handle("elicitation/create", params, revision, server) for params in elicitations]
        try:
            results = await gather_or_cancel(handling)
        except ProtocolError as problem:
            raise InvalidAnswer(f"The server asks what it may not ask: {problem.message}") from problem
        if any(isinstance(result, ElicitResult) and result.action != "accept" for result in results):
            raise Refused(f"The page that the server wants visited was not: {refusal.message}")
        ids = frozenset(params.elicitation_id for params in elicitations if params.elicitation_id is not None)
        try:
            async with asyncio.timeout(seconds):
                await self._wait_completed(ids)
        except TimeoutError:
            pass

    async def _wait_completed(self, ids: frozenset[str]) -> None:
        while not ids <= set(self._completed):
            self._changed.clear()
            await self._changed.wait()


def requires_url_elicitation(problem: RemoteError, revision: Revision, handlers: RequestHandlers) -> bool:
    """True if an error asks for URL elicitations that this client has declared to support."""
    supported = COMPLETE in revision.methods and handlers.can_open_urls(revision)
    return problem.code == URL_ELICITATION_REQUIRED and supported


def _required_elicitations(refusal: RemoteError) -> list[ElicitParams]:
    data: Any = refusal.data
    try:
        return [load(ElicitParams, params) for params in msgspec.convert(data, _Required).elicitations]
    except msgspec.ValidationError as problem:
        raise InvalidAnswer(f"The server wants a page visited, and does not say which: {problem}") from None


class _Required(msgspec.Struct):
    elicitations: list[dict[str, Any]]
