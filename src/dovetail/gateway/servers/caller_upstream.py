"""A server that each caller reaches with credentials of its own: everything is kept for each caller apart."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Hashable
from typing import TYPE_CHECKING, Protocol, TypeAlias

from dovetail.auth.errors import AuthorizationFailed
from dovetail.gateway.access_control.inbound import Caller, caller_of
from dovetail.gateway.errors import ServerUnavailable
from dovetail.protocol.errors import HttpStatus

from .context import UpstreamContext
from .leases import ConnectionKey, GiveUp
from .lost_subscriptions import LostConnection
from .upstream import MakeTarget, Upstream

if TYPE_CHECKING:
    from dovetail.client.targets.contract import ServerTarget
    from dovetail.gateway.settings import ServerSettings
    from dovetail.server.session import ServerCall, Session
    from dovetail.transports.http.contract import Auth
    from dovetail.wire.jsonrpc import Id

    from .connection import Offers, UpstreamConnection

MAX_CALLERS = 1000
"""Callers that have connections of their own to one server; beyond it the longest unused ones are closed."""

AuthorizedTarget: TypeAlias = "Callable[[Auth | None], Awaitable[ServerTarget]]"
"""Makes the target of a server with credentials, or with none."""

FillSecret: TypeAlias = "Callable[[str], Awaitable[str]]"
"""Fills in the references of a secret, as `${input:…}`."""

_ANONYMOUS = "it needs the token of the caller, and this request came without authentication"

_WITHOUT_TOKEN = (
    "it needs the token of the caller, which gateways neither store nor pass on to each other. Send the request again"
)


class Callers(Protocol):
    """Makes the server as its callers reach it."""

    @property
    def serves_local(self) -> bool:
        """True if a client of a local transport, which has no token, is a caller too."""
        ...

    @property
    def need_token(self) -> bool:
        """True if the credentials of a caller are made of the token that its request came with."""
        ...

    def key(self, caller: Caller | None) -> Hashable:
        """Equal for callers that may use the same credentials."""
        ...

    def upstream(self, caller: Caller | None) -> CallerUpstream:
        """The server with the credentials of a caller."""
        ...


class CallerUpstream(Upstream):
    """A server as one caller reaches it."""

    has_caller = True

    def serve(self, caller: Caller | None) -> None:
        """A request of the caller has arrived."""

    def load_credentials_again(self) -> None:
        """The credentials of the caller were replaced."""

    def _note_failure(self, problem: BaseException) -> None:
        # That one caller may not use a server does not make it a server that fails.
        if _concerns_caller(problem):
            self.breaker.abandoned()
        else:
            super()._note_failure(problem)


class PerCallerUpstream(Upstream):
    """A server that each caller reaches with credentials of its own: everything is kept for each caller apart.

    Callers share the circuit breaker only, which tells whether the server works.
    """

    per_caller = True

    def __init__(
        self,
        key: str,
        make_target: MakeTarget,
        settings: ServerSettings,
        context: UpstreamContext,
        callers: Callers,
    ) -> None:
        super().__init__(key, make_target, settings, context)
        self.callers = callers
        self.needs_token = callers.need_token
        self._callers: dict[Hashable, CallerUpstream] = {}

    def of(self, call: ServerCall) -> Upstream:
        """The server as the caller of a request reaches it; raises `ServerUnavailable` for an unknown caller."""
        caller = caller_of(call)
        if caller is None and not (self.callers.serves_local and _is_local(call)):
            raise ServerUnavailable(self.key, _ANONYMOUS)
        key = self.callers.key(caller)
        upstream = self._callers.pop(key, None)
        if upstream is None:
            if self.needs_token and caller is not None and not caller.token:
                raise ServerUnavailable(self.key, _WITHOUT_TOKEN)
            upstream = self._new_caller(caller)
        self._callers[key] = upstream
        upstream.serve(caller)
        if upstream.revision is not None:
            self.revision = upstream.revision
        return upstream

    def drop(self, key: Hashable) -> None:
        """Forget a caller and close its connections: its credentials are not valid any more."""
        if (upstream := self._callers.pop(key, None)) is not None:
            self._spawn(upstream.close())

    def load_credentials_again(self, key: Hashable) -> None:
        """Use the new credentials of a caller; its calls in progress go on."""
        if (upstream := self._callers.get(key)) is not None:
            upstream.load_credentials_again()

    def _new_caller(self, caller: Caller | None) -> CallerUpstream:
        if len(self._callers) >= MAX_CALLERS:
            # The longest unused one without connections, or else the longest unused one.
            idle = (key for key, one in self._callers.items() if not one.connections)
            self.drop(next(idle, next(iter(self._callers))))
        upstream = self.callers.upstream(caller)
        upstream.breaker = self.breaker
        return upstream

    @property
    def connections(self) -> int:
        """The number of open connections of all callers."""
        return sum(one.connections for one in self._upstreams())

    @property
    def known_offers(self) -> list[Offers]:
        """The offers to all callers that have asked yet."""
        return [offers for one in self._upstreams() for offers in one.known_offers]

    async def connection(self, call: ServerCall) -> UpstreamConnection:
        """The connection of the caller for a call."""
        return await self.of(call).connection(call)

    @contextlib.asynccontextmanager
    async def leased(self, call: ServerCall, give_up: GiveUp) -> AsyncGenerator[UpstreamConnection]:
        """The connection of the caller for a call whose client may be asked something."""
        async with self.of(call).leased(call, give_up) as connection:
            yield connection

    async def offers(self, call: ServerCall) -> Offers:
        """The offers of the server to the caller."""
        return await self.of(call).offers(call)

    def kept_offers(self, call: ServerCall) -> Offers | None:
        """The offers of the server to the caller before it failed."""
        try:
            return self.of(call).kept_offers(call)
        except ServerUnavailable:
            return None

    def connections_of(self, session: Session) -> list[UpstreamConnection]:
        """The open connections of one session."""
        return [connection for one in self._upstreams() for connection in one.connections_of(session)]

    def has_subscriptions(self, session: Session) -> bool:
        """True if a session is subscribed to any resource."""
        return any(one.has_subscriptions(session) for one in self._upstreams())

    def unsubscribe(self, session: Session, known_as: str | None = None, request: Id | None = None) -> None:
        """End one subscription of a session, or all."""
        for one in self._upstreams():
            one.unsubscribe(session, known_as, request)

    def tell_subscribers(self) -> None:
        """Notify all subscribers that what they are subscribed to may have changed."""
        for one in self._upstreams():
            one.tell_subscribers()

    def release(self, session: Session) -> None:
        """A session has ended: close its connections."""
        for one in self._upstreams():
            one.release(session)

    def subscriptions(self) -> dict[ConnectionKey, LostConnection]:
        """None: with other settings, other credentials may be needed."""
        return {}

    async def close(self) -> None:
        """Close everything, for good."""
        await asyncio.gather(super().close(), *(one.close() for one in self._upstreams()))

    async def close_connections(self) -> None:
        """Close all connections; the next request opens one again."""
        await asyncio.gather(super().close_connections(), *(one.close_connections() for one in self._upstreams()))

    def _upstreams(self) -> list[CallerUpstream]:
        return list(self._callers.values())


def _is_local(call: ServerCall) -> bool:
    """True for a client over stdio, or in the same process: it is the user who runs the gateway."""
    return call.terms.principal is None and call.client_key is None


def _concerns_caller(problem: BaseException) -> bool:
    """True for a refusal of the caller's credentials, by the authorization server or by the server itself."""
    return isinstance(problem, AuthorizationFailed) or (
        isinstance(problem, HttpStatus) and problem.status in (401, 403)
    )
