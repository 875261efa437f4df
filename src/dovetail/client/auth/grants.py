"""The ways to a token: through a browser, or with something that a program holds itself."""

from __future__ import annotations

import inspect
import os
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Protocol, TypeAlias

import msgspec

from dovetail.auth import authorization_code, discovery, grants, registration, scopes
from dovetail.auth.challenge import Challenge
from dovetail.auth.client_authentication import OAuthClient
from dovetail.auth.discovery import DiscoveryResult
from dovetail.auth.dpop import Prover
from dovetail.auth.metadata import AuthorizationServer
from dovetail.auth.tokens import Account, Tokens
from dovetail.runtime.oauth_http import OAuthHttp

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from .browser_login import OpenPage

LoginRedirect: TypeAlias = "Callable[[], AbstractAsyncContextManager[tuple[str, OpenPage]]]"
"""Opens for one login: the redirect URI, and what sends the user to a page."""
Assertion: TypeAlias = "str | Callable[[], str | Awaitable[str]]"
"""A token that somebody else gave out, or a function that gives one."""


class GrantContext(msgspec.Struct, frozen=True, kw_only=True):
    """Where a token is to be had, and what is known so far."""

    fetch: OAuthHttp
    found: DiscoveryResult
    challenge: Challenge
    before: tuple[str, ...]
    """The scopes that were asked for before, or that the user wants."""
    prover: Prover | None
    earlier: OAuthClient | None
    """Who we were at the last login, wherever that was."""
    registered: OAuthClient | None
    """Who we are to this authorization server, from an earlier registration."""

    def means(self, client: OAuthClient, server: AuthorizationServer | None = None) -> grants.TokenRequestContext:
        """What a grant needs."""
        return grants.TokenRequestContext(server or self.found.server, client, time.time(), os.urandom, self.prover)

    def scopes(self, offline: bool = False) -> tuple[str, ...]:
        """What to ask for."""
        protected, server = self.found.protected, self.found.server
        named = None if protected is None else protected.scopes_supported
        return scopes.select(self.challenge.scopes, named, server.scopes_supported, before=self.before, offline=offline)

    def own(self, given: OAuthClient) -> OAuthClient:
        """A client that was given, for this authorization server; refused if it was used with another."""
        issuer = self.found.server.issuer
        if self.earlier is not None and self.earlier.id == given.id:
            self.earlier.at(issuer)
        return given.at(issuer)

    def account(self, client: OAuthClient, tokens: Tokens, requested: tuple[str, ...]) -> Account:
        """The login that came of it."""
        return Account(
            resource=self.found.resource,
            issuer=self.found.server.issuer,
            client=client,
            tokens=tokens,
            requested=requested,
            dpop_key=None if self.prover is None else self.prover.key.to_pem(),
        )


class Grant(Protocol):
    """One of the ways."""

    async def obtain(self, at: GrantContext) -> Account:
        """Get a token."""
        ...


class BrowserLogin:
    """The user logs in on a page of the authorization server: an authorization code with PKCE."""

    def __init__(
        self, doorway: LoginRedirect, *, name: str, client: OAuthClient | None = None, document: str | None = None
    ) -> None:
        self._doorway = doorway
        self._name = name
        self._client = client
        self._document = document

    async def obtain(self, at: GrantContext) -> Account:
        """Get a token."""
        server = at.found.server
        server.check_pkce()
        if self._client is not None:
            self._client = at.own(self._client)
        wanted = at.scopes(offline=True)
        async with self._doorway() as (redirect_uri, open_page):
            about = registration.ClientMetadata(name=self._name, redirect_uris=(redirect_uri,))
            obtaining = registration.get_client(
                server,
                about,
                now=time.time(),
                configured=self._client,
                document=self._document,
                registered=at.registered,
            )
            client = await at.fetch.run(obtaining)
            login = authorization_code.build_request(
                server,
                client,
                redirect_uri=redirect_uri,
                resource=at.found.resource,
                scope=wanted,
                random=os.urandom,
                dpop_thumbprint=None if at.prover is None else at.prover.thumbprint,
            )
            code = authorization_code.read_response(login, await open_page(login.url))
        tokens = await at.fetch.run(grants.exchange_code(at.means(client), login, code))
        return at.account(client, tokens, login.scopes)


class ClientCredentials:
    """A program gets a token for itself, with a secret or a private key in PEM.

    With `issuer` the credentials are shown to that authorization server only; else to the first one that the server
    names, and then to no other.
    """

    def __init__(
        self,
        client_id: str,
        *,
        secret: str | None = None,
        private_key: str | None = None,
        kid: str | None = None,
        issuer: str | None = None,
    ) -> None:
        self._client = OAuthClient(id=client_id, secret=secret, key=private_key, kid=kid, issuer=issuer)

    async def obtain(self, at: GrantContext) -> Account:
        """Get a token."""
        self._client = client = at.own(self._client)
        wanted = at.scopes()
        tokens = await at.fetch.run(grants.client_credentials(at.means(client), at.found.resource, wanted))
        return at.account(client, tokens, wanted)


class WorkloadIdentity:
    """A program shows what its platform says of it, as a JWT."""

    def __init__(self, client_id: str, assertion: Assertion, *, issuer: str | None = None) -> None:
        self._client = OAuthClient(id=client_id, issuer=issuer)
        self._assertion = assertion

    async def obtain(self, at: GrantContext) -> Account:
        """Get a token."""
        self._client = client = at.own(self._client)
        wanted = at.scopes()
        assertion = await _given(self._assertion)
        tokens = await at.fetch.run(grants.jwt_bearer(at.means(client), assertion, at.found.resource, wanted))
        return at.account(client, tokens, wanted)


class EnterpriseLogin:
    """The identity provider of an enterprise lets its user in: its ID token becomes a grant for the server."""

    def __init__(
        self,
        client_id: str,
        id_token: Assertion,
        *,
        idp_issuer: str,
        idp_client_id: str,
        secret: str | None = None,
        idp_secret: str | None = None,
        issuer: str | None = None,
    ) -> None:
        self._client = OAuthClient(id=client_id, secret=secret, issuer=issuer)
        self._idp_client = OAuthClient(id=idp_client_id, secret=idp_secret, issuer=idp_issuer)
        self._idp_issuer = idp_issuer
        self._id_token = id_token

    async def obtain(self, at: GrantContext) -> Account:
        """Get a token."""
        self._client = client = at.own(self._client)
        wanted, found = at.scopes(), at.found
        provider = await at.fetch.run(discovery.find_authorization_server(self._idp_issuer))
        exchange = grants.identity_assertion(
            at.means(self._idp_client, provider),
            await _given(self._id_token),
            audience=found.server.issuer,
            resource=found.resource,
            scope=wanted,
        )
        assertion = await at.fetch.run(exchange)
        tokens = await at.fetch.run(grants.jwt_bearer(at.means(client), assertion, found.resource, wanted))
        return at.account(client, tokens, wanted)


def fixed_redirect(open_page: OpenPage, redirect_uri: str) -> LoginRedirect:
    """A doorway of the user's own."""

    @asynccontextmanager
    async def doorway() -> AsyncGenerator[tuple[str, OpenPage]]:
        yield redirect_uri, open_page

    return doorway


async def _given(assertion: Assertion) -> str:
    if isinstance(assertion, str):
        return assertion
    given = assertion()
    return await given if inspect.isawaitable(given) else given
