"""Calls that a server refuses until the person has been to a page (2025-11-25 client/elicitation, −32042)."""

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

from .mrtr import gather_or_cancel
from .server_requests import RequestHandlers

COMPLETE = "notifications/elicitation/complete"
MAX_REMEMBERED = 1000
"""Visits that are over and that nobody has asked about yet; the oldest are forgotten."""


class RequiredUrlElicitations:
    """Sends the person to pages and hears when they are done there."""

    def __init__(self, handlers: RequestHandlers) -> None:
        self._handlers = handlers
        self._over: deque[str] = deque(maxlen=MAX_REMEMBERED)
        self._news = asyncio.Event()

    def notified(self, method: str, params: dict[str, Any]) -> None:
        """Hear that a visit is over; ids that nobody knows do no harm."""
        id = params.get("elicitationId")
        if method == COMPLETE and isinstance(id, str):
            self._over.append(id)
            self._news.set()

    async def make(
        self, refusal: RemoteError, revision: Revision, server: Implementation | None, seconds: float | None
    ) -> None:
        """Send the person to the pages that a refusal names, and wait for the end of the visits.

        A server need not tell of the end. So after some seconds the call is worth another try all the same.
        """
        pages = _pages(refusal)
        for page in pages:
            if page.mode != "url" or page.elicitation_id is None:
                raise InvalidAnswer("The server refuses a call until a page is visited, and names no page")
        asking = [self._handlers.answer("elicitation/create", page, revision, server) for page in pages]
        try:
            answers = await gather_or_cancel(asking)
        except ProtocolError as problem:
            raise InvalidAnswer(f"The server asks what it may not ask: {problem.message}") from problem
        if any(isinstance(answer, ElicitResult) and answer.action != "accept" for answer in answers):
            raise Refused(f"The page that the server wants visited was not: {refusal.message}")
        ids = frozenset(page.elicitation_id for page in pages if page.elicitation_id is not None)
        try:
            async with asyncio.timeout(seconds):
                await self._all_over(ids)
        except TimeoutError:
            pass

    async def _all_over(self, ids: frozenset[str]) -> None:
        while not ids <= set(self._over):
            self._news.clear()
            await self._news.wait()


def requires_url_elicitation(problem: RemoteError, revision: Revision, handlers: RequestHandlers) -> bool:
    """Whether an error asks for a visit that this client may ask its person for."""
    return problem.code == URL_ELICITATION_REQUIRED and COMPLETE in revision.methods and handlers.can_visit(revision)


def _pages(refusal: RemoteError) -> list[ElicitParams]:
    data: Any = refusal.data
    try:
        wanted = msgspec.convert(data, _Wanted).elicitations
        return [load(ElicitParams, page) for page in wanted]
    except msgspec.ValidationError as problem:
        raise InvalidAnswer(f"The server wants a page visited, and does not say which: {problem}") from None


class _Wanted(msgspec.Struct):
    elicitations: list[dict[str, Any]]
