"""URL elicitation: pages that users are asked to open, and the notification when a user is done there.

2025-11-25 client/elicitation, "Completion Notifications for URL Mode Elicitation" and "URL Elicitation
Required Error"; later revisions have neither, and there a page is an elicitation like any other.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import weakref
from typing import TYPE_CHECKING, Any

from dovetail.protocol.errors import URL_ELICITATION_REQUIRED, ProtocolError, ToolError, URLElicitationRequired
from dovetail.protocol.revisions.revision import Revision
from dovetail.runtime.connection import Connection
from dovetail.types.bounded_dict import BoundedDict
from dovetail.types.client_features import ElicitParams, ElicitResult, InputRequired
from dovetail.types.serialization import Value

if TYPE_CHECKING:
    from dovetail.server.invocation import Invocation

COMPLETE = "notifications/elicitation/complete"
PAGE = "dovetail/page"
"""The key of the question that asks for a page, on revisions where it is one."""

MAX_OPEN = 10_000
"""Elicitations remembered; the completion of older ones is not sent."""


class UrlElicitations:
    """The client of each URL elicitation: only that one may be notified of its completion."""

    def __init__(self) -> None:
        self._clients: BoundedDict[str, tuple[asyncio.AbstractEventLoop, weakref.ref[Connection]]] = BoundedDict(
            MAX_OPEN
        )

    def begin(self, id: str, connection: Connection) -> None:
        """A client is about to be asked."""
        self._clients[id] = (asyncio.get_running_loop(), weakref.ref(connection))

    def complete(self, id: str | None) -> None:
        """Notify the client, once; safe from any thread, as pages are often served by another."""
        loop, client = self._clients.pop(id or "", (None, None))
        if loop is not None and client is not None and (connection := client()) is not None:
            with contextlib.suppress(RuntimeError):  # its loop is closed, so the client is gone
                loop.call_soon_threadsafe(connection.notify, COMPLETE, {"elicitationId": id})


def begin_url_elicitation(page: ElicitParams, invocation: Invocation) -> str | None:
    """Give an elicitation its id, and remember its client; None where the revision has no elicitation ids."""
    call = invocation.call
    if COMPLETE not in call.terms.revision.methods or call.connection is None:
        page.elicitation_id = None
        return None
    page.elicitation_id = page.elicitation_id or os.urandom(16).hex()
    invocation.server.url_elicitations.begin(page.elicitation_id, call.connection)
    return page.elicitation_id


def page_required(problem: URLElicitationRequired, invocation: Invocation) -> InputRequired:
    """Turn `URLElicitationRequired` into −32042, or, on later revisions, into a question before another run."""
    question = invocation.client_requests.elicit_url(problem.message, problem.url, problem.id)
    if begin_url_elicitation(question.params, invocation) is not None:
        page = invocation.call.terms.revision.emit(question.params)
        raise ProtocolError(URL_ELICITATION_REQUIRED, problem.message, {"elicitations": [page]})
    answer = invocation.answers.get(PAGE)
    if isinstance(answer, ElicitResult) and answer.action != "accept":
        raise ToolError(f"The user did not agree to open {problem.url}: {problem.message}")
    return InputRequired({PAGE: question}, invocation.request_state)


def page_answer(revision: Revision, responses: dict[str, Any]) -> dict[str, Value]:
    """The user's answer to the page that a handler without a context required."""
    if PAGE not in responses or revision.server_requests != "rounds":
        return {}
    from dovetail.server.mrtr.suspendable_call import load_answer

    return {PAGE: load_answer(revision, "elicitation/create", responses[PAGE])}
