"""Credentials of a gateway at its servers: its own, or those that a caller's token is exchanged for.

The token of a caller is for the gateway. It is sent to the authorization server that exchanges it, and never to a
server behind. What comes of it is kept for that caller alone: with its connections, its lists and its subscriptions,
it belongs to an `Upstream` of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Hashable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from dovetail.auth import grants
from dovetail.auth.client_authentication import OAuthClient
from dovetail.auth.discovery import find_authorization_server
from dovetail.auth.errors import AuthorizationFailed
from dovetail.auth.metadata import AuthorizationServer, canonical_url
from dovetail.auth.tokens import Tokens
from dovetail.client.auth.grants import ClientCredentials
from dovetail.client.auth.oauth import OAuth
from dovetail.gateway.access_control.inbound import caller_of
from dovetail.gateway.errors import ServerUnavailable
from dovetail.protocol.errors import HttpStatus
from dovetail.runtime.oauth_http import OAuthHttp
from dovetail.transports.http.contract import Auth, HttpOptions

from .upstream import DeclaredCapabilities, Generation, OnChanged, Upstream

if TYPE_CHECKING:
    from dovetail.client.targets.contract import ServerTarget
    from dovetail.gateway.settings import Credentials, ServerSettings
    from dovetail.server.session import ServerCall, Session
    from dovetail.types.capabilities import Implementation

    from .connection import Offers, UpstreamConnection

MAX_CALLERS = 1000
"""Callers that have connections of their own to one server; beyond it the longest unused ones are closed."""

EARLY_SECONDS = 30.0
"""Seconds before its expiry at which a token is exchanged again; a tenth of its lifetime if that is less."""

MakeTarget: TypeAlias = "Callable[[Auth | None], Awaitable[ServerTarget]]"
"""Makes the target of a server with credentials, or with none."""

FillSecret: TypeAlias = "Callable[[str], Awaitable[str]]"
"""Fills in the references of a secret, as `${input:…}`."""


class ExchangedToken(Auth):
    """The token of one caller at one server, in exchange for the token that the caller sent to the gateway."""

    def __init__(self, credentials: Credentials, fill: FillSecret, http: HttpOptions | None = None) -> None:
        assert credentials.issuer is not None
        self._credentials = credentials
        self._issuer = credentials.issuer
        self._fill = fill
        self._http = OAuthHttp(self._issuer, http or HttpOptions())
        self._server: AuthorizationServer | None = None
        self._tokens: Tokens | None = None
        self._lock = asyncio.Lock()
        self.subject_token = ""
        """The token of the caller's latest request."""

    async def headers(self, method: str, url: str) -> Mapping[str, str]:
        """The header with the token, which is exchanged first where there is none that lasts."""
        async with self._lock:
            if self._tokens is None or _expires_soon(self._tokens, time.time()):
                self._tokens = await self._exchange(url)
            return {"authorization": self._tokens.authorization}

    def accepted(self, url: str, headers: Mapping[str, str]) -> None:
        """The server has accepted a request: there is nothing to note."""

    async def refused(self, url: str, sent: Mapping[str, str], status: int, headers: Mapping[str, str]) -> bool:
        """Exchange the token again after a 401, unless that was done for this request already."""
        if status != 401:
            return False
        async with self._lock:
            tokens = self._tokens
            if tokens is not None and tokens.authorization != sent.get("authorization"):
                return True
            if tokens is not None and time.time() - tokens.obtained_at < 1:
                raise AuthorizationFailed(f"{url} refuses the token that {self._issuer} has just issued for it")
            self._tokens = await self._exchange(url)
            return True

    async def _exchange(self, url: str) -> Tokens:
        given = self._credentials
        if self._server is None:
            self._server = await self._http.run(find_authorization_server(self._issuer))
        secret = None if given.client_secret is None else await self._fill(given.client_secret)
        client = OAuthClient(id=given.client_id, secret=secret, issuer=self._issuer)
        context = grants.TokenRequestContext(self._server, client, time.time(), os.urandom)
        return await self._http.run(
            grants.token_exchange(
                context, self.subject_token, canonical_url(url), given.scopes, audience=given.audience
            )
        )


class OwnToken:
    """The credentials of the gateway itself at one server, made when the server is first connected to."""

    def __init__(self, credentials: Credentials, fill: FillSecret) -> None:
        self._credentials = credentials
        self._fill = fill
        self._auth: OAuth | None = None

    async def auth(self) -> Auth:
        """The credentials."""
        if self._auth is None:
            given = self._credentials
            secret = None if given.client_secret is None else await self._fill(given.client_secret)
            grant = ClientCredentials(given.client_id, secret=secret, issuer=given.issuer)
            self._auth = OAuth(grant, scopes=given.scopes)
        return self._auth


class CallerUpstream(Upstream):
    """A server as one caller reaches it."""

    has_caller = True

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
        info: Implementation,
        on_changed: OnChanged,
        generation: Generation,
        declared: DeclaredCapabilities,
        make_auth: Callable[[], ExchangedToken],
    ) -> None:
        super().__init__(key, functools.partial(make_target, None), settings, info, on_changed, generation, declared)
        self._make_auth = make_auth
        self._callers: dict[Hashable, tuple[CallerUpstream, ExchangedToken]] = {}

        def make_caller(auth: ExchangedToken) -> CallerUpstream:
            target = functools.partial(make_target, auth)
            return CallerUpstream(key, target, settings, info, on_changed, generation, declared)

        self._make_caller = make_caller

    def of(self, call: ServerCall) -> Upstream:
        """The server as the caller of a request reaches it; raises `ServerUnavailable` for an unknown caller."""
        caller = caller_of(call)
        if caller is None:
            raise ServerUnavailable(self.key, _ANONYMOUS)
        found = self._callers.pop(caller.key, None)
        if found is None:
            found = self._new_caller()
        self._callers[caller.key] = found
        upstream, auth = found
        auth.subject_token = caller.token
        if upstream.revision is not None:
            self.revision = upstream.revision
        return upstream

    def _new_caller(self) -> tuple[CallerUpstream, ExchangedToken]:
        if len(self._callers) >= MAX_CALLERS:
            # The longest unused one without connections, or else the longest unused one.
            idle = (key for key, (one, _) in self._callers.items() if not one.connections)
            evicted, _ = self._callers.pop(next(idle, next(iter(self._callers))))
            self._spawn(evicted.close())
        auth = self._make_auth()
        upstream = self._make_caller(auth)
        upstream.breaker = self.breaker
        return upstream, auth

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
    async def leased(self, call: ServerCall) -> AsyncGenerator[UpstreamConnection]:
        """The connection of the caller for a call whose client may be asked something."""
        async with self.of(call).leased(call) as connection:
            yield connection

    async def offers(self, call: ServerCall) -> Offers:
        """The offers of the server to the caller."""
        return await self.of(call).offers(call)

    def kept_offers(self, call: ServerCall) -> Offers | None:
        """The offers of the server to the caller before it failed."""
        return None if caller_of(call) is None else self.of(call).kept_offers(call)

    def connections_of(self, session: Session) -> list[UpstreamConnection]:
        """The open connections of one session."""
        return [connection for one in self._upstreams() for connection in one.connections_of(session)]

    def unsubscribe(self, session: Session, uri: str | None = None) -> None:
        """End the subscriptions of a session, or that to one resource."""
        for one in self._upstreams():
            one.unsubscribe(session, uri)

    def release(self, session: Session) -> None:
        """A session has ended: close its connections."""
        for one in self._upstreams():
            one.release(session)

    async def close(self) -> None:
        """Close everything, for good."""
        await asyncio.gather(super().close(), *(one.close() for one in self._upstreams()))

    async def close_connections(self) -> None:
        """Close all connections; the next request opens one again."""
        await asyncio.gather(super().close_connections(), *(one.close_connections() for one in self._upstreams()))

    def _upstreams(self) -> list[CallerUpstream]:
        return [upstream for upstream, _ in self._callers.values()]


def make_upstream(
    key: str,
    make_target: MakeTarget,
    fill: FillSecret,
    settings: ServerSettings,
    info: Implementation,
    on_changed: OnChanged,
    generation: Generation,
    declared: DeclaredCapabilities,
) -> Upstream:
    """A server of a gateway, with the credentials of its settings."""
    credentials = settings.credentials
    if credentials is not None and credentials.type == "token-exchange":
        make_auth = functools.partial(ExchangedToken, credentials, fill)
        return PerCallerUpstream(key, make_target, settings, info, on_changed, generation, declared, make_auth)
    own = None if credentials is None else OwnToken(credentials, fill)

    async def target() -> ServerTarget:
        return await make_target(None if own is None else await own.auth())

    return Upstream(key, target, settings, info, on_changed, generation, declared)


async def keep_secret(text: str) -> str:
    """A secret that is given in code, as it is."""
    return text


_ANONYMOUS = "it needs the token of the caller, and this request came without authentication"


def _expires_soon(tokens: Tokens, now: float) -> bool:
    if tokens.expires_at is None:
        return False
    return now >= tokens.expires_at - min(EARLY_SECONDS, max(0.0, tokens.expires_at - tokens.obtained_at) / 10)


def _concerns_caller(problem: BaseException) -> bool:
    """True for a refusal of the caller's credentials, by the authorization server or by the server itself."""
    return isinstance(problem, AuthorizationFailed) or (
        isinstance(problem, HttpStatus) and problem.status in (401, 403)
    )
