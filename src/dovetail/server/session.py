"""Session: the state of one client of a server, as data; and the call, which knows its session."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING, Protocol

import msgspec

from dovetail.protocol.lifecycle import ServerLifecycle
from dovetail.protocol.revisions.revision import Revision
from dovetail.protocol.terms import Terms
from dovetail.runtime.call import Call
from dovetail.runtime.connection import Connection
from dovetail.transports.base import MessageSink
from dovetail.wire.jsonrpc import Request

from .features.subscriptions import Subscriptions

if TYPE_CHECKING:
    from .features.logging import LogRateLimit


class SessionServer(Protocol):
    """The parts of a server that a session uses."""

    @property
    def served(self) -> Mapping[str, Revision]: ...
    def shows_resource(self, session: Session, uri: str) -> bool: ...


class SharedSession(Protocol):
    """A session over HTTP, as a server needs it that serves a request for another replica."""

    busy: int
    """Requests that are being served; while there are any, the session does not expire."""

    @property
    def terms(self) -> Terms | None: ...
    @property
    def state(self) -> Session: ...
    @property
    def connection(self) -> Connection: ...


class Session:
    """One client: its handshake, log level, subscriptions and limits.

    Over a stream there is one a connection, over HTTP one a session of the handshake era. Requests of the envelope era
    over HTTP share one by client, which then holds nothing but limits.
    """

    __slots__ = (
        *("__weakref__", "_log_rate", "_subscriptions", "client_key", "id", "keeps_state", "lifecycle", "log_level"),
        *("loop", "principal", "scopes", "server"),
    )

    def __init__(
        self,
        server: SessionServer,
        principal: str | None = None,
        *,
        client_key: Hashable = None,
        keeps_state: bool = True,
    ) -> None:
        self.server = server
        """The server that the client is connected to; handlers may be those of servers mounted in it."""
        self.lifecycle = ServerLifecycle(server.served)
        self.principal = principal
        self.client_key = principal if client_key is None else client_key
        """The key that limits count the client by (`protocol/client_address`); None for one of a local transport."""
        self.scopes: frozenset[str] | None = None
        """The scopes of the token that the current message came with; None without authorization."""
        self.keeps_state = keeps_state
        """False for a client of the handshake era without a session: nothing is remembered after its request."""
        self.log_level: str | None = None
        """The minimum level of log messages for this client; None if the server has not declared logging."""
        self.loop = asyncio.get_running_loop()
        self.id: str | None = None
        """The id of the session over HTTP, by which other replicas know it."""
        self._subscriptions: Subscriptions | None = None
        self._log_rate: LogRateLimit | None = None

    @property
    def subscriptions(self) -> Subscriptions:
        """The changes that the client is notified of."""
        if self._subscriptions is None:
            self._subscriptions = Subscriptions(self.lifecycle, self._shows_resource)
        return self._subscriptions

    @property
    def subscribes(self) -> bool:
        """True if it is subscribed to any resource (handshake era)."""
        return self._subscriptions is not None and bool(self._subscriptions.subscribed)

    @property
    def log_rate(self) -> LogRateLimit:
        """The limit on log messages to this client."""
        if self._log_rate is None:
            from .features.logging import LogRateLimit

            self._log_rate = LogRateLimit()
        return self._log_rate

    def _shows_resource(self, uri: str) -> bool:
        return self.server.shows_resource(self, uri)

    def reset(self, log_level: str | None) -> None:
        """Begin anew with a handshake: forget what the client has asked for before."""
        self.log_level = log_level
        if self._subscriptions is not None:
            self._subscriptions.clear()

    def terms_for(self, request: Request) -> Terms:
        """The terms of a request that came on the client's own connection, with its principal."""
        terms = self.lifecycle.terms_for(request)
        if self.principal is None:
            return terms
        return msgspec.structs.replace(terms, principal=self.principal, scopes=self.scopes)


class ServerCall(Call):
    """A request that a server serves for one of its clients."""

    __slots__ = ("_session",)

    def __init__(
        self,
        request: Request,
        terms: Terms,
        sink: MessageSink,
        connection: Connection | None,
        session: Session | Callable[[], Session],
    ) -> None:
        """A client without a session is looked up when a limit of it is first needed, which is rare."""
        super().__init__(request, terms, sink, connection)
        self._session = session

    @property
    def client_key(self) -> Hashable:
        """The key that limits count the client by."""
        principal = self.terms.principal
        return self.session.client_key if principal is None else principal

    @property
    def session(self) -> Session:
        """The session of the client, or its limits where it has no session."""
        if not isinstance(self._session, Session):
            self._session = self._session()
        return self._session
