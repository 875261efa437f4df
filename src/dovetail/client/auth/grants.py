"""OAuth grants: how a client obtains a token, with a browser login or with credentials that a program holds."""

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
"""Opens for one login: gives the redirect URI, and the function that sends the user to a page."""
Assertion: TypeAlias = "str | Callable[[], str | Awaitable[str]]"
"""A token that another party issued, or a function that returns one."""


class GrantContext(msgspec.Struct, frozen=True, kw_only=True):
    """The servers, the challenge, and what is known from earlier grants."""

    http: OAuthHttp
    discovered: DiscoveryResult
    challenge: Challenge
    earlier_scopes: tuple[str, ...]
    """The scopes of earlier requests, or those that the caller wants."""
    prover: Prover | None
    earlier_client: OAuthClient | None
    """The client of the last login, at whichever authorization server."""
    registered: OAuthClient | None
    """The client of an earlier registration at this authorization server."""

    def means(self, client: OAuthClient, server: AuthorizationServer | None = None) -> grants.TokenRequestContext:
        """The arguments that every flow of `auth/grants` needs."""
        return grants.TokenRequestContext(
            server or self.discovered.server, client, time.time(), os.urandom, self.prover
        )

    def scopes(self, offline: bool = False) -> tuple[str, ...]:
        """The scopes to request."""
        protected, server = self.discovered.protected, self.discovered.server
        named = None if protected is None else protected.scopes_supported
        return scopes.select(
            self.challenge.scopes, named, server.scopes_supported, before=self.earlier_scopes, offline=offline
        )

    def bind_client(self, given: OAuthClient) -> OAuthClient:
        """Bind a client that the caller gave to this authorization server; raises if it was used with another."""
        issuer = self.discovered.server.issuer
        if self.earlier_client is not None and self.earlier_client.id == given.id:
            self.earlier_client.at(issuer)
        return given.at(issuer)

    def account(self, client: OAuthClient, tokens: Tokens, requested: tuple[str, ...]) -> Account:
        """The login that the grant resulted in."""
        return Account(
            resource=self.discovered.resource,
            issuer=self.discovered.server.issuer,
            client=client,
            tokens=tokens,
            requested=requested,
            dpop_key=None if self.prover is None else self.prover.key.to_pem(),
        )


class Grant(Protocol):
    """A flow that obtains a token."""

    async def obtain(self, context: GrantContext) -> Account:
        """Obtain a token."""
        ...


class BrowserLogin:
    """Authorization code grant with PKCE: the user logs in on a page of the authorization server."""

    def __init__(
        self, redirect: LoginRedirect, *, name: str, client: OAuthClient | None = None, document: str | None = None
    ) -> None:
        self._redirect = redirect
        self._name = name
        self._client = client
        self._document = document

    async def obtain(self, context: GrantContext) -> Account:
        """Obtain a token."""
        if self._client is not None:
            self._client = context.bind_client(self._client)
        async with self._redirect() as (redirect_uri, open_page):
            about = registration.ClientMetadata(name=self._name, redirect_uris=(redirect_uri,))
            begun = await begin_login(
                context, about, context.scopes(offline=True), configured=self._client, document=self._document
            )
            response = await open_page(begun.request.url)
        return await finish_login(context, begun, response)


class BegunLogin(msgspec.Struct, frozen=True):
    """A browser login whose response has not arrived yet."""

    client: OAuthClient
    request: authorization_code.AuthorizationRequest


async def begin_login(
    context: GrantContext,
    about: registration.ClientMetadata,
    scope: tuple[str, ...],
    *,
    configured: OAuthClient | None = None,
    document: str | None = None,
) -> BegunLogin:
    """Register a client if need be, and make the request that the user's browser opens."""
    server = context.discovered.server
    server.check_pkce()
    client = await context.http.run(
        registration.get_client(
            server,
            about,
            now=time.time(),
            configured=configured,
            document=document,
            registered=context.registered,
        )
    )
    request = authorization_code.build_request(
        server,
        client,
        redirect_uri=about.redirect_uris[0],
        resource=context.discovered.resource,
        scope=scope,
        random=os.urandom,
        dpop_thumbprint=None if context.prover is None else context.prover.thumbprint,
    )
    return BegunLogin(client, request)


async def finish_login(context: GrantContext, begun: BegunLogin, response: str) -> Account:
    """Exchange the code in the response, the URL of the redirect or its query, for tokens."""
    code = authorization_code.read_response(begun.request, response)
    tokens = await context.http.run(grants.exchange_code(context.means(begun.client), begun.request, code))
    return context.account(begun.client, tokens, begun.request.scopes)


class ClientCredentials:
    """Client credentials grant: a program obtains a token for itself, with a secret or a private key in PEM.

    With `issuer` the credentials are sent to that authorization server only; otherwise to the first one that the
    server names, and then to no other.
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

    async def obtain(self, context: GrantContext) -> Account:
        """Obtain a token."""
        self._client = client = context.bind_client(self._client)
        wanted = context.scopes()
        tokens = await context.http.run(
            grants.client_credentials(context.means(client), context.discovered.resource, wanted)
        )
        return context.account(client, tokens, wanted)


class WorkloadIdentity:
    """JWT bearer grant (RFC 7523): a program presents a JWT that its platform issued for it."""

    def __init__(self, client_id: str, assertion: Assertion, *, issuer: str | None = None) -> None:
        self._client = OAuthClient(id=client_id, issuer=issuer)
        self._assertion = assertion

    async def obtain(self, context: GrantContext) -> Account:
        """Obtain a token."""
        self._client = client = context.bind_client(self._client)
        wanted = context.scopes()
        assertion = await _given(self._assertion)
        tokens = await context.http.run(
            grants.jwt_bearer(context.means(client), assertion, context.discovered.resource, wanted)
        )
        return context.account(client, tokens, wanted)


class EnterpriseLogin:
    """Enterprise login: the ID token of an identity provider is exchanged for a JWT bearer grant at the server."""

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

    async def obtain(self, context: GrantContext) -> Account:
        """Obtain a token."""
        self._client = client = context.bind_client(self._client)
        wanted, discovered = context.scopes(), context.discovered
        provider = await context.http.run(discovery.find_authorization_server(self._idp_issuer))
        exchange = grants.identity_assertion(
            context.means(self._idp_client, provider),
            await _given(self._id_token),
            audience=discovered.server.issuer,
            resource=discovered.resource,
            scope=wanted,
        )
        assertion = await context.http.run(exchange)
        tokens = await context.http.run(
            grants.jwt_bearer(context.means(client), assertion, discovered.resource, wanted)
        )
        return context.account(client, tokens, wanted)


def fixed_redirect(open_page: OpenPage, redirect_uri: str) -> LoginRedirect:
    """A redirect that the caller handles."""

    @asynccontextmanager
    async def redirect() -> AsyncGenerator[tuple[str, OpenPage]]:
        yield redirect_uri, open_page

    return redirect


async def _given(assertion: Assertion) -> str:
    if isinstance(assertion, str):
        return assertion
    given = assertion()
    return await given if inspect.isawaitable(given) else given
