"""A client that is connected to a server: over stdio, a socket, a WebSocket, HTTP+SSE, or in an HTTP session."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable

from dovetail.protocol.terms import Terms
from dovetail.runtime.connection import Connection
from dovetail.runtime.serve import Outcome
from dovetail.transports.base import Channel, MessageSink, Reader, Sender
from dovetail.wire.jsonrpc import Id, Notification, Request

from .core import ServerCore
from .dispatch import dispatch
from .session import ServerCall, Session


class ServerConnection:
    """The server's side of one connection: admits and dispatches the requests of one session."""

    __slots__ = ("_core", "_on_disconnect", "connection", "session")

    def __init__(
        self,
        core: ServerCore,
        sender: Sender,
        session: Session,
        reader: Reader | None = None,
        on_disconnect: Callable[[str | None], None] | None = None,
    ) -> None:
        """`on_disconnect` gets the reason if the connection broke, None if the client closed its side."""
        self._core = core
        self._on_disconnect = on_disconnect
        self.session = session
        self.connection = Connection(sender, self, reader=reader)
        session.subscriptions.attach(self.connection)

    @property
    def null_id(self) -> bool:
        """True if an error without a readable id carries `id: null`."""
        return self.session.lifecycle.null_id

    @property
    def batching(self) -> bool:
        """True if the negotiated revision has batches."""
        terms = self.session.lifecycle.terms
        return terms is not None and terms.revision.batching

    def answers_invalid(self, id: Id | None) -> bool:
        """A server answers every message that it cannot accept (JSON-RPC 2.0, section 5)."""
        return True

    @property
    def waits_for_reader(self) -> bool:
        """A server bounds the answers that a client does not read."""
        return True

    def admit(self, request: Request, sink: MessageSink, connection: Connection, terms: Terms | None) -> ServerCall:
        """Decide the terms of a request, where the HTTP headers have not; raises `ProtocolError` to refuse it."""
        session = self.session
        return ServerCall(request, terms or session.terms_for(request), sink, connection, session)

    def dispatch(self, call: ServerCall) -> Outcome:
        """Dispatch a request by its method."""
        return dispatch(self._core, call)

    def notified(self, notification: Notification) -> None:
        """Receive a notification; unknown ones are ignored, as JSON-RPC says."""
        if notification.method == "notifications/initialized":
            self.session.lifecycle.initialized()
        else:
            self._core.notified(notification, self.session)

    def disconnected(self, reason: str | None) -> None:
        """The client is gone."""
        if self._on_disconnect is not None:
            self._on_disconnect(reason)


class ConnectionRunner:
    """Serves one client over a channel, from its first message to its last."""

    def __init__(
        self,
        core: ServerCore,
        channel: Channel,
        grace: float,
        principal: str | None = None,
        client_key: Hashable = None,
    ) -> None:
        self._core = core
        self._channel = channel
        self.grace = grace
        self._session = Session(core, principal, client_key=client_key)
        self._gone: asyncio.Future[str | None] = self._session.loop.create_future()
        server_connection = ServerConnection(core, channel, self._session, channel, self._disconnected)
        self._connection = server_connection.connection
        self.running = False
        """Not still starting, and not ending already."""

    @property
    def null_id(self) -> bool:
        """True if an error without a readable id carries `id: null`."""
        return self._session.lifecycle.null_id

    async def run(self) -> None:
        """Serve until the client goes; calls that were read are answered within the grace period."""
        try:
            async with self._core.attached(self._session):
                await self._serve()
        finally:
            # Also when the lifespan fails, and not before it is left: what it prints is not for the client.
            await self._connection.close()

    async def _serve(self) -> None:
        self._connection.open()
        self.running = True
        try:
            broken = await self._gone
            self.running = False
            self._session.subscriptions.end()
            # A client that only closed its side still reads; one whose connection broke does not.
            await self._connection.finish_calls(self.grace if broken is None else 0)
        finally:
            await self._connection.stop()

    def allow(self, scopes: frozenset[str] | None) -> None:
        """Serve the next message with a token of these scopes."""
        self._session.scopes = scopes

    def stop(self) -> None:
        """Read nothing more and end as if the client had gone."""
        self.running = False
        self._channel.pause()
        self._connection.disconnected(None)

    def _disconnected(self, reason: str | None) -> None:
        if not self._gone.done():
            self._gone.set_result(reason)
