"""Pages that users are sent to, and telling the right client when a user is done there.

2025-11-25 client/elicitation, "Completion Notifications for URL Mode Elicitation" and "URL Elicitation
Required Error"; later revisions have neither, and there a page is a question like any other.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import weakref
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from dovetail.protocol.errors import URL_ELICITATION_REQUIRED, ProtocolError, ToolError, URLElicitationRequired
from dovetail.protocol.revisions.revision import Revision
from dovetail.runtime.call import Call
from dovetail.runtime.connection import Connection
from dovetail.types.client_features import ElicitParams, ElicitResult, InputRequired
from dovetail.types.serialization import Value

if TYPE_CHECKING:
    from dovetail.server.app import Server
    from dovetail.server.context import Context

COMPLETE = "notifications/elicitation/complete"
PAGE = "dovetail/page"
"""The key of the question that a page is where it is one."""

MAX_VISITS = 10_000
"""Visits remembered; of older ones nobody is told."""


class Visits:
    """Which client was asked to send its user to a page: only that one may be told of it."""

    def __init__(self) -> None:
        self._clients: OrderedDict[str, tuple[asyncio.AbstractEventLoop, weakref.ref[Connection]]] = OrderedDict()

    def begin(self, id: str, connection: Connection) -> None:
        """A client is about to be asked."""
        self._clients[id] = (asyncio.get_running_loop(), weakref.ref(connection))
        while len(self._clients) > MAX_VISITS:
            self._clients.popitem(last=False)

    def complete(self, id: str | None) -> None:
        """Tell the client, once; safe from any thread, as pages are often served by another."""
        loop, client = self._clients.pop(id or "", (None, None))
        if loop is not None and client is not None and (connection := client()) is not None:
            with contextlib.suppress(RuntimeError):  # its loop is closed, so nobody is there
                loop.call_soon_threadsafe(connection.notify, COMPLETE, {"elicitationId": id})


def begin_visit(page: ElicitParams, server: Server, call: Call) -> str | None:
    """Name a visit, and remember whom to tell of it; nothing where the revision has no names for visits."""
    if not _names_visits(call.terms.revision):
        page.elicitation_id = None
        return None
    page.elicitation_id = page.elicitation_id or os.urandom(16).hex()
    server.visits.begin(page.elicitation_id, call.connection)
    return page.elicitation_id


def page_required(problem: URLElicitationRequired, context: Context, call: Call) -> InputRequired:
    """What becomes of a handler that needs a page to be visited: −32042, or a question and another run."""
    question = context.ask.elicit_url(problem.message, problem.url, problem.id)
    if begin_visit(question.params, context.server, call) is not None:
        page = call.terms.revision.emit(question.params)
        raise ProtocolError(URL_ELICITATION_REQUIRED, problem.message, {"elicitations": [page]})
    answer = context.answers.get(PAGE)
    if isinstance(answer, ElicitResult) and answer.action != "accept":
        raise ToolError(f"The user did not agree to open {problem.url}: {problem.message}")
    return InputRequired({PAGE: question}, context.state)


def page_answer(revision: Revision, responses: dict[str, Any]) -> dict[str, Value]:
    """What the user said to the page that a handler without a context needed."""
    if PAGE not in responses or revision.server_requests != "rounds":
        return {}
    from dovetail.server.mrtr.suspendable_call import load_answer

    return {PAGE: load_answer(revision, "elicitation/create", responses[PAGE])}


def _names_visits(revision: Revision) -> bool:
    return COMPLETE in revision.methods
