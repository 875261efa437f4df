"""The client's side of one connection: what it answers, and whom it tells of what it hears."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dovetail.protocol.errors import METHOD_NOT_FOUND, REJECTED, ProtocolError, Refused
from dovetail.protocol.extension import Extensions
from dovetail.protocol.revisions import NEWEST_HANDSHAKE
from dovetail.protocol.revisions.revision import Revision
from dovetail.protocol.terms import Terms
from dovetail.runtime.call import Call
from dovetail.runtime.connection import Work
from dovetail.types.base import Result
from dovetail.types.capabilities import ClientCapabilities, Implementation
from dovetail.types.serialization import Value
from dovetail.wire import codec
from dovetail.wire.jsonrpc import Id, Notification, Request

from .server_requests import RequestHandlers
from .url_elicitation import RequiredUrlElicitations

if TYPE_CHECKING:
    from .client import Client

_REJECTIONS = {
    "sampling/createMessage": "User rejected sampling request",
    "roots/list": "User rejected roots request",
}

NotificationListener = Callable[[str, dict[str, Any]], None]


class ClientSession:
    """Answers the server's requests, where its revision lets it send any."""

    def __init__(
        self,
        client: Client,
        extensions: Extensions,
        on_lost: Callable[[], None],
        handlers: RequestHandlers | None = None,
    ) -> None:
        self._client = client
        self._extensions = extensions
        self._handlers = handlers or RequestHandlers()
        self._on_lost = on_lost
        self.revision: Revision = NEWEST_HANDSHAKE
        self.server: Implementation | None = None
        self._agreed = False
        self.capabilities = ClientCapabilities()
        self.visits = RequiredUrlElicitations(self._handlers)
        self.listeners: set[NotificationListener] = {self.visits.notified}
        self.watched: Counter[str] = Counter()
        """How many watch each resource that the server was asked to tell of."""

    def agree(self, revision: Revision, server: Implementation | None) -> None:
        """Both sides have agreed on a revision, and the server has said who it is."""
        self.revision = revision
        self.server = server
        self._agreed = True

    @property
    def null_id(self) -> bool:
        """Whether an error without a readable id carries `id: null`."""
        return self.revision.null_id

    @property
    def batching(self) -> bool:
        """Whether the agreed revision knows batches."""
        return self.revision.batching

    def answers_refused(self, id: Id | None) -> bool:
        """A client answers requests only: not what a server prints, and nothing where it must not answer.

        2026-07-28 stdio, "Sending Messages": the client must not write responses.
        """
        return id is not None and self.revision.server_requests == "direct"

    @property
    def waits_for_reader(self) -> bool:
        """A client does not: its server may be waiting for it in the same way."""
        return False

    def terms_for(self, request: Request) -> Terms:
        """The connection's terms."""
        return Terms(self.revision, None, self.capabilities)

    def serve(self, call: Call) -> bytes | Work | None:
        """Answer a request of the server; on the envelope era there must be none, and no answer."""
        if self.revision.server_requests != "direct":
            return None
        chain = self._client.middleware
        if chain is None or not chain.wraps(call.request.method):
            return self._serve(call)
        from dovetail.runtime.middleware import pass_in

        return pass_in(chain, "client", self.server, call, self._serve)

    def _serve(self, call: Call) -> bytes | Work:
        revision, method = self.revision, call.request.method
        if method == "ping":
            return codec.encode(revision.emit_result("ping", Result()))
        if self._agreed and self._handlers.can_answer(method, revision):
            return self._question(call, revision.accept("server", method, call.request.params))
        if (found := self._extensions.requests.get(method)) is not None:
            _, handler = found

            async def work() -> bytes:
                return codec.encode(await handler(call.request.params, self._client))

            return work
        raise ProtocolError(METHOD_NOT_FOUND, f"Method not found: {method}")

    def _question(self, call: Call, params: Value) -> Work:
        """Ask whom the client has named; several questions may be open at once."""
        method, pending = call.request.method, call.connection.pending

        async def work() -> bytes:
            pending.pause()
            try:
                answer = await self._handlers.answer(method, params, self.revision, self.server)
            except Refused:
                raise ProtocolError(REJECTED, _REJECTIONS[method]) from None
            finally:
                pending.resume()
            return codec.encode(self.revision.emit_result(method, answer))

        return work

    def notified(self, notification: Notification) -> None:
        """Tell everyone who listens."""
        if (taker := self._extensions.notifications.get(notification.method)) is not None:
            taker(notification.params)
        for listener in list(self.listeners):
            listener(notification.method, notification.params)

    def disconnected(self, reason: str | None) -> None:
        """The server is gone."""
        self._on_lost()
