"""Client's side of one connection: serves the server's requests and distributes its notifications."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from dovetail.protocol.errors import METHOD_NOT_FOUND, REJECTED, ProtocolError, Refused
from dovetail.protocol.extension import Extensions
from dovetail.protocol.revisions import NEWEST_HANDSHAKE
from dovetail.protocol.revisions.revision import Revision
from dovetail.protocol.terms import Terms
from dovetail.runtime.call import Call
from dovetail.runtime.connection import Connection
from dovetail.runtime.serve import Outcome, Work
from dovetail.transports.base import MessageSink
from dovetail.types.base import Result
from dovetail.types.capabilities import ClientCapabilities, Implementation
from dovetail.types.serialization import Value
from dovetail.wire import codec
from dovetail.wire.jsonrpc import Id, Notification, Request

from .server_requests import RequestHandlers
from .url_elicitation import RequiredUrlElicitations

if TYPE_CHECKING:
    from dovetail.runtime.middleware import Chain

_REJECTIONS = {
    "sampling/createMessage": "User rejected sampling request",
    "roots/list": "User rejected roots request",
}

NotificationCallback = Callable[[str, dict[str, Any]], None]


class SessionOwner(Protocol):
    """The client that a session belongs to, which handlers of extensions get as their context."""

    middleware: Chain | None


class ClientSession:
    """The service of a client's connection, which serves requests where the revision lets servers send any."""

    def __init__(
        self,
        client: SessionOwner,
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
        self.url_elicitations = RequiredUrlElicitations(self._handlers)
        self.notification_callbacks: set[NotificationCallback] = {self.url_elicitations.notified}
        """Functions that are called with every notification."""
        self.subscriptions: Counter[str] = Counter()
        """By URI: how many watchers share the subscription to a resource."""

    def agree(self, revision: Revision, server: Implementation | None) -> None:
        """Use the revision that both sides have agreed on, and the name that the server gives itself."""
        self.revision = revision
        self.server = server
        self._agreed = True

    @property
    def null_id(self) -> bool:
        """True if an error without a readable id carries `id: null`."""
        return self.revision.null_id

    @property
    def batching(self) -> bool:
        """True if the agreed revision has batches."""
        return self.revision.batching

    def answers_invalid(self, id: Id | None) -> bool:
        """True if an invalid message is answered: not what a server prints, and nothing where answers are forbidden.

        2026-07-28 stdio, "Sending Messages": the client must not write responses.
        """
        return id is not None and self.revision.server_requests == "direct"

    @property
    def waits_for_reader(self) -> bool:
        """A client does not wait: its server may be waiting for it in the same way."""
        return False

    def admit(self, request: Request, sink: MessageSink, connection: Connection, terms: Terms | None) -> Call:
        """Serve a request under the terms of the connection."""
        return Call(request, Terms(self.revision, None, self.capabilities), sink, connection)

    def dispatch(self, call: Call) -> Outcome:
        """Serve a request of the server; on the envelope era there must be none, and no answer."""
        if self.revision.server_requests != "direct":
            return None
        chain = self._client.middleware
        if chain is None or not chain.wraps(call.request.method):
            return self._dispatch(call)
        from dovetail.runtime.middleware import pass_in

        return pass_in(chain, "client", self.server, call, self._dispatch)

    def _dispatch(self, call: Call) -> Outcome:
        revision, method = self.revision, call.request.method
        if method == "ping":
            return codec.encode(revision.emit_result("ping", Result()))
        if self._agreed and self._handlers.can_handle(method, revision):
            return self._handle(call, revision.accept("server", method, call.request.params))
        if (extension := self._extensions.requests.get(method)) is not None:
            _, handler = extension

            async def work() -> bytes:
                return codec.encode(await handler(call.request.params, self._client))

            return work
        raise ProtocolError(METHOD_NOT_FOUND, f"Method not found: {method}")

    def _handle(self, call: Call, params: Value) -> Work:
        """The work of a handler that the caller gave; request timeouts are paused meanwhile."""
        assert call.connection is not None
        method, pending = call.request.method, call.connection.pending

        async def work() -> bytes:
            pending.pause()
            try:
                result = await self._handlers.handle(method, params, self.revision, self.server)
            except Refused:
                raise ProtocolError(REJECTED, _REJECTIONS[method]) from None
            finally:
                pending.resume()
            return codec.encode(self.revision.emit_result(method, result))

        return work

    def notified(self, notification: Notification) -> None:
        """Pass a notification to its extension and to all callbacks."""
        if (handler := self._extensions.notifications.get(notification.method)) is not None:
            handler(notification.params)
        for callback in list(self.notification_callbacks):
            callback(notification.method, notification.params)

    def disconnected(self, reason: str | None) -> None:
        """The connection is lost."""
        self._on_lost()
