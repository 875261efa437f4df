"""The client's side of one connection: what it answers, and whom it tells of what it hears."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dovetail.protocol.errors import METHOD_NOT_FOUND, ProtocolError
from dovetail.protocol.extension import Extensions
from dovetail.protocol.revisions import NEWEST_HANDSHAKE
from dovetail.protocol.revisions.revision import Revision
from dovetail.protocol.terms import Terms
from dovetail.runtime.call import Call
from dovetail.runtime.connection import Work
from dovetail.types.base import Result
from dovetail.types.capabilities import ClientCapabilities
from dovetail.wire import codec
from dovetail.wire.jsonrpc import Id, Notification, Request

if TYPE_CHECKING:
    from .client import Client

Listener = Callable[[str, dict[str, Any]], None]


class ClientSession:
    """Answers the server's requests, where its revision lets it send any."""

    def __init__(self, client: Client, extensions: Extensions, on_lost: Callable[[], None]) -> None:
        self._client = client
        self._extensions = extensions
        self._on_lost = on_lost
        self.revision: Revision = NEWEST_HANDSHAKE
        self.capabilities = ClientCapabilities()
        self.listeners: set[Listener] = set()

    def agree(self, revision: Revision) -> None:
        """Both sides have agreed on a revision."""
        self.revision = revision

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
        revision, method = self.revision, call.request.method
        if revision.server_requests != "direct":
            return None
        if method == "ping":
            return codec.encode(revision.emit_result("ping", Result()))
        if (found := self._extensions.requests.get(method)) is not None:
            _, handler = found

            async def work() -> bytes:
                return codec.encode(await handler(call.request.params, self._client))

            return work
        raise ProtocolError(METHOD_NOT_FOUND, f"Method not found: {method}")

    def notified(self, notification: Notification) -> None:
        """Tell everyone who listens."""
        if (taker := self._extensions.notifications.get(notification.method)) is not None:
            taker(notification.params)
        for listener in list(self.listeners):
            listener(notification.method, notification.params)

    def disconnected(self, reason: str | None) -> None:
        """The server is gone."""
        self._on_lost()
