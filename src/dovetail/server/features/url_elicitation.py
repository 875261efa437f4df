"""URL elicitation: pages that users are asked to open, and the notification when a user is done there.

2025-11-25 client/elicitation, "Completion Notifications for URL Mode Elicitation" and "URL Elicitation
Required Error"; later revisions have neither, and there a page is an elicitation like any other.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import weakref
from collections.abc import Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from dovetail.protocol.errors import URL_ELICITATION_REQUIRED, ProtocolError, ToolError, URLElicitationRequired
from dovetail.protocol.revisions.revision import Revision
from dovetail.runtime.connection import Connection
from dovetail.server.replicas.messages import ElicitationCompleted, SessionNotification
from dovetail.storage.contract import StoreError
from dovetail.types.bounded_dict import BoundedDict
from dovetail.types.client_features import ElicitParams, ElicitResult, InputRequired
from dovetail.types.serialization import Value
from dovetail.wire import codec

if TYPE_CHECKING:
    from dovetail.server.invocation import Invocation
    from dovetail.server.replicas.replica import Replica

logger = logging.getLogger("dovetail")

COMPLETE = "notifications/elicitation/complete"
PAGE = "dovetail/page"
"""The key of the question that asks for a page, on revisions where it is one."""

MAX_OPEN = 10_000
"""Elicitations remembered; the completion of older ones is not sent."""

OPEN_SECONDS = 86_400.0
"""Seconds for which an elicitation is remembered in the store."""

_RETRY_SECONDS = 0.25
_MAX_RETRY_SECONDS = 30.0
"""The first and the longest pause before a completion is tried again while the store is unavailable."""


class UrlElicitations:
    """The client of each URL elicitation: only that one may be notified of its completion, and only once.

    An elicitation in a session that replicas share is an entry of the store: the user may be done at a page that
    another replica serves, or after the replica that asked has ended. The clients of others are known here only.
    """

    def __init__(self, replicas: Sequence[Replica] = ()) -> None:
        """`replicas` are those of this process, one for each application with a shared store, now and later."""
        self._clients: BoundedDict[str, tuple[asyncio.AbstractEventLoop, weakref.ref[Connection]]] = BoundedDict(
            MAX_OPEN
        )
        self._replicas = replicas

    async def begin(self, id: str, connection: Connection, session: str | None) -> None:
        """A client is about to be asked; `session` is that of its session over HTTP, if it has one."""
        if session is None or not self._replicas:
            self._clients[id] = (asyncio.get_running_loop(), weakref.ref(connection))
            return
        for replica in self._replicas:
            await replica.store.put(_key(id), session.encode(), OPEN_SECONDS)

    def complete(self, id: str | None) -> None:
        """Notify the client, once; safe from any thread, as pages are often served by another."""
        if id and not self.notify_here(id):
            for replica in self._replicas:
                replica.run(self._complete_elsewhere(replica, id))

    def notify_here(self, id: str) -> bool:
        """Notify a client that is connected to this process; False if it is not known here."""
        loop, client = self._clients.pop(id, (None, None))
        if loop is None or client is None:
            return False
        if (connection := client()) is not None:
            with contextlib.suppress(RuntimeError):  # its loop is closed, so the client is gone
                loop.call_soon_threadsafe(connection.notify, COMPLETE, {"elicitationId": id})
        return True

    async def _complete_elsewhere(self, replica: Replica, id: str) -> None:
        """Notify the client of a session, or let the replica do so that a client is connected to."""
        pause = _RETRY_SECONDS
        while True:
            try:
                session = await replica.store.get(_key(id))
                # Of several that complete it at the same time, one gets True.
                mine = session is not None and await replica.store.delete(_key(id))
                break
            except StoreError as problem:
                if pause > _MAX_RETRY_SECONDS:
                    logger.error("The completion of a URL elicitation is lost: %s", problem)
                    return
            await asyncio.sleep(pause)
            pause *= 2
        if session is None:
            replica.announce(ElicitationCompleted(id))
        elif mine:
            line = codec.notification(COMPLETE, codec.encode({"elicitationId": id}))
            replica.announce(SessionNotification(session.decode(), line))


async def begin_url_elicitation(page: ElicitParams, invocation: Invocation) -> str | None:
    """Give an elicitation its id, and remember its client; None where the revision has no elicitation ids."""
    call = invocation.call
    if COMPLETE not in call.terms.revision.methods or call.connection is None:
        page.elicitation_id = None
        return None
    page.elicitation_id = page.elicitation_id or os.urandom(16).hex()
    await invocation.server.url_elicitations.begin(page.elicitation_id, call.connection, call.session.id)
    return page.elicitation_id


async def page_required(problem: URLElicitationRequired, invocation: Invocation) -> InputRequired:
    """Turn `URLElicitationRequired` into −32042, or, on later revisions, into a question before another run."""
    question = invocation.client_requests.elicit_url(problem.message, problem.url, problem.id)
    if await begin_url_elicitation(question.params, invocation) is not None:
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


def _key(id: str) -> str:
    # A digest, because an id may be chosen by the author of the server and be of any length.
    return f"elicitation:{sha256(id.encode(errors='surrogatepass')).hexdigest()[:32]}"
