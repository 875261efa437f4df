"""Credentials of a gateway at its servers: its own, those that a caller's token is exchanged for, or a user's account.

The token of a caller is for the gateway. It is sent to the authorization server that exchanges it, and never to a
server behind. What comes of it is kept for that caller alone: with its connections, its lists and its subscriptions,
it belongs to an `Upstream` of its own.
"""

from __future__ import annotations

import asyncio
import functools
import os
import time
from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from dovetail.auth import grants
from dovetail.auth.client_authentication import OAuthClient
from dovetail.auth.discovery import find_authorization_server
from dovetail.auth.errors import AuthorizationFailed
from dovetail.auth.metadata import AuthorizationServer, canonical_url
from dovetail.auth.tokens import Tokens
from dovetail.client.auth.grants import ClientCredentials
from dovetail.client.auth.oauth import OAuth
from dovetail.gateway.access_control.inbound import Caller
from dovetail.gateway.accounts.account_upstream import AccountCallers, Accounts
from dovetail.gateway.settings import ServerSettings
from dovetail.runtime.oauth_http import OAuthHttp
from dovetail.transports.http.contract import Auth, HttpOptions

from .caller_upstream import AuthorizedTarget, CallerUpstream, FillSecret, PerCallerUpstream
from .context import UpstreamContext
from .upstream import Upstream

if TYPE_CHECKING:
    from dovetail.client.targets.contract import ServerTarget
    from dovetail.gateway.settings import Credentials

EARLY_SECONDS = 30.0
"""Seconds before its expiry at which a token is exchanged again; a tenth of its lifetime if that is less."""


class ExchangedToken(Auth):
    """The token of one caller at one server, in exchange for the token that the caller sent to the gateway."""

    def __init__(self, credentials: Credentials, fill: FillSecret, http: HttpOptions | None = None) -> None:
        assert credentials.issuer is not None
        assert credentials.client_id is not None
        self._client_id = credentials.client_id
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
        client = OAuthClient(id=self._client_id, secret=secret, issuer=self._issuer)
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
            assert given.client_id is not None
            secret = None if given.client_secret is None else await self._fill(given.client_secret)
            grant = ClientCredentials(given.client_id, secret=secret, issuer=given.issuer)
            self._auth = OAuth(grant, scopes=given.scopes)
        return self._auth


class ExchangeUpstream(CallerUpstream):
    """A server as one caller reaches it, with a token in exchange for the caller's."""

    def __init__(
        self,
        key: str,
        make_target: AuthorizedTarget,
        settings: ServerSettings,
        context: UpstreamContext,
        auth: ExchangedToken,
    ) -> None:
        super().__init__(key, functools.partial(make_target, auth), settings, context)
        self._auth = auth

    def serve(self, caller: Caller | None) -> None:
        """Exchange the token of the caller's latest request from now on."""
        assert caller is not None
        if caller.token:  # work that has only the name of its caller goes on with the token of the last request
            self._auth.subject_token = caller.token


class ExchangeCallers(NamedTuple):
    """The callers of a server for which their tokens are exchanged."""

    server: str
    make_target: AuthorizedTarget
    settings: ServerSettings
    context: UpstreamContext
    credentials: Credentials
    fill: FillSecret
    serves_local: bool = False
    need_token: bool = True

    def key(self, caller: Caller | None) -> Hashable:
        """One client of a principal may hold less rights than another, and so does what its token is exchanged for."""
        return None if caller is None else caller.key

    def upstream(self, caller: Caller | None) -> CallerUpstream:
        """The server with the credentials of a caller."""
        auth = ExchangedToken(self.credentials, self.fill)
        return ExchangeUpstream(self.server, self.make_target, self.settings, self.context, auth)


async def keep_secret(text: str) -> str:
    """A secret that is given in code, as it is."""
    return text


class ServerDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """A server of a gateway: how to reach it, and its settings."""

    make_target: AuthorizedTarget
    fill_secret: FillSecret = keep_secret
    """Fills in the references of the secrets in its settings."""
    settings: ServerSettings = ServerSettings()
    identity: Any = None
    """Equal for a server that has not changed; its connections are kept when the configuration is read again."""


def make_upstream(key: str, definition: ServerDefinition, context: UpstreamContext, accounts: Accounts) -> Upstream:
    """A server of a gateway, with the credentials of its settings."""
    make_target, fill, settings = definition.make_target, definition.fill_secret, definition.settings
    credentials = settings.credentials
    plain = functools.partial(make_target, None)
    if credentials is None:
        return Upstream(key, plain, settings, context)
    if credentials.type == "token-exchange":
        exchange = ExchangeCallers(key, make_target, settings, context, credentials, fill)
        return PerCallerUpstream(key, plain, settings, context, exchange)
    if credentials.type == "user-account":
        callers = AccountCallers(key, make_target, settings, context, accounts, credentials, fill)
        return PerCallerUpstream(key, plain, settings, context, callers)
    own = OwnToken(credentials, fill)

    async def target() -> ServerTarget:
        return await make_target(await own.auth())

    return Upstream(key, target, settings, context)


def _expires_soon(tokens: Tokens, now: float) -> bool:
    if tokens.expires_at is None:
        return False
    return now >= tokens.expires_at - min(EARLY_SECONDS, max(0.0, tokens.expires_at - tokens.obtained_at) / 10)
