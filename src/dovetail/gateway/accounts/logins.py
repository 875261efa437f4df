"""Logins of users in a browser: at the gateway, to prove who they are, and at servers, to connect accounts.

A login begins at one gateway and may end at another. What is known of it in between is an entry of the store, bound to
the browser in which it began (2026-07-28 elicitation, "Phishing"): a link that someone else has made, or a redirect
that someone else has answered, is of no use in it.

A hostile server can name an authorization server that sends the browser on to another one, to be handed the code of
that. So logins at the gateway, at servers, and at each authorization server that has registered the gateway come back
to addresses of their own (RFC 9700, section 4.4.2): the code then arrives at another address than its login expects.
Where the gateway has one address at several, as with its metadata document, the answer has to name its issuer (RFC
9207).
"""

from __future__ import annotations

from hashlib import sha256
from typing import Literal, NamedTuple, TypeAlias
from urllib.parse import quote

import msgspec

from dovetail.auth import discovery
from dovetail.auth.challenge import NO_CHALLENGE, Challenge
from dovetail.auth.client_authentication import OAuthClient
from dovetail.auth.discovery import DiscoveryResult
from dovetail.auth.dpop import Prover
from dovetail.auth.jwk import SigningKey
from dovetail.auth.metadata import AuthorizationServer
from dovetail.auth.registration import ClientMetadata
from dovetail.auth.tokens import Account
from dovetail.client.auth.browser_login import check_page
from dovetail.client.auth.challenge_probe import probe_challenge
from dovetail.client.auth.grants import BegunLogin, GrantContext, begin_login, finish_login
from dovetail.runtime.oauth_http import OAuthHttp
from dovetail.transports.http.contract import HttpOptions

from .account_store import AccountStore

Purpose: TypeAlias = Literal["gateway", "account"]
"""What a login is for: to prove who a user of the gateway is, or to connect an account at a server."""


class ClientPaths(NamedTuple):
    """The paths of the gateway as a client of authorization servers: its redirect URI, and its metadata document."""

    callback: str
    document: str


CLIENTS: dict[Purpose, ClientPaths] = {
    "gateway": ClientPaths("/accounts/login", "/accounts/login.json"),
    "account": ClientPaths("/accounts/callback", "/accounts/client.json"),
}


class PendingLogin(msgspec.Struct, frozen=True, kw_only=True):
    """A login that has begun, and what it is for."""

    purpose: Purpose
    home: str
    """The URL of the server that named the authorization server: addresses that it can reach are allowed."""
    discovered: DiscoveryResult
    begun: BegunLogin
    dpop_key: str | None = None
    server: str = ""
    """The key of the server of an account, and the user that it is for."""
    principal: str = ""
    tag: str = ""
    """The tag of the link that the user has followed to the gateway, if there was one."""


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(PendingLogin).decode


class Logins:
    """Begins and ends logins."""

    def __init__(self, store: AccountStore, base: str, name: str) -> None:
        """`base` is the public URL of the gateway, `name` what it is called at authorization servers."""
        self._store = store
        self.base = base
        self._name = name

    def client_document(self, purpose: Purpose) -> str | None:
        """The URL of the client metadata document of the gateway; None where others could not read it."""
        return self.base + CLIENTS[purpose].document if self.base.startswith("https:") else None

    def describe_client(self, purpose: Purpose) -> bytes | None:
        """The client metadata document; None where there is none."""
        document = self.client_document(purpose)
        about = self._about(self._redirect_uri(purpose))
        return None if document is None else msgspec.json.encode(about.document(document))

    def _about(self, redirect_uri: str) -> ClientMetadata:
        return ClientMetadata(name=self._name, redirect_uris=(redirect_uri,), uri=self.base)

    def _redirect_uri(self, purpose: Purpose, tag: str | None = None) -> str:
        """The address that a login comes back to; `tag` stands for the authorization server that has registered it."""
        return self.base + CLIENTS[purpose].callback + ("" if tag is None else f"?issuer={quote(tag, safe='')}")

    def _registered_uri(self, purpose: Purpose, server: AuthorizationServer) -> str:
        return self._redirect_uri(purpose, sha256(server.issuer.encode()).hexdigest()[:16])

    async def begin_at_gateway(
        self,
        browser: str,
        issuer: str,
        resource: str,
        scopes: tuple[str, ...],
        *,
        configured: OAuthClient | None,
        dpop: bool,
        server: str,
        tag: str,
    ) -> str:
        """The page at which a user of the gateway logs in; `server` and `tag` are where they wanted to go."""
        http = OAuthHttp(issuer, HttpOptions())
        found = DiscoveryResult(resource, await http.run(discovery.find_authorization_server(issuer)))
        prover = Prover(SigningKey.generate()) if dpop else None
        context = self._context(http, found, NO_CHALLENGE, prover)
        begun = await self._begin("gateway", browser, context, scopes, configured)
        login = PendingLogin(
            purpose="gateway",
            home=issuer,
            discovered=found,
            begun=begun,
            dpop_key=_pem(context.prover),
            server=server,
            tag=tag,
        )
        return await self._keep(browser, login)

    async def begin_at_server(
        self,
        browser: str,
        url: str,
        scopes: tuple[str, ...],
        *,
        configured: OAuthClient | None,
        server: str,
        principal: str,
    ) -> str:
        """The page at which a user connects an account at the server behind a URL."""
        http = OAuthHttp(url, HttpOptions())
        challenge = await probe_challenge(url) or NO_CHALLENGE
        found = await http.run(discovery.discover(url, challenge))
        bound = found.protected is not None and found.protected.dpop_bound_access_tokens_required
        prover = Prover(SigningKey.generate()) if bound else None
        context = self._context(http, found, challenge, prover, scopes)
        begun = await self._begin("account", browser, context, context.scopes(offline=True), configured)
        login = PendingLogin(
            purpose="account",
            home=url,
            discovered=found,
            begun=begun,
            dpop_key=_pem(context.prover),
            server=server,
            principal=principal,
        )
        return await self._keep(browser, login)

    async def take(self, browser: str, state: str, purpose: Purpose, tag: str | None) -> PendingLogin | None:
        """The login that a redirect belongs to, once; `purpose` and `tag` are those of the address that it came to.

        None if it did not begin in this browser, has expired, or expects its answer at another address.
        """
        content = await self._store.take_login(state, browser)
        try:
            login = None if content is None else _decode(content)
        except msgspec.DecodeError:
            return None  # begun at another version of the gateway
        if login is None:
            return None
        expected = login.begun.request.redirect_uri
        await self._store.end_attempt(expected, browser)
        return login if expected == self._redirect_uri(purpose, tag) else None

    async def finish(self, login: PendingLogin, response: str) -> Account:
        """Exchange the code in the query of a redirect for tokens."""
        prover = None if login.dpop_key is None else Prover(SigningKey.from_pem(login.dpop_key))
        http = OAuthHttp(login.home, HttpOptions())
        context = self._context(http, login.discovered, NO_CHALLENGE, prover)
        return await finish_login(context, login.begun, response)

    def _context(
        self,
        http: OAuthHttp,
        found: DiscoveryResult,
        challenge: Challenge,
        prover: Prover | None,
        scopes: tuple[str, ...] = (),
    ) -> GrantContext:
        return GrantContext(
            http=http,
            discovered=found,
            challenge=challenge,
            earlier_scopes=scopes,
            prover=prover,
            earlier_client=None,
            registered=None,
        )

    async def _begin(
        self,
        purpose: Purpose,
        browser: str,
        context: GrantContext,
        scopes: tuple[str, ...],
        configured: OAuthClient | None,
    ) -> BegunLogin:
        server, document = context.discovered.server, self.client_document(purpose)
        is_known = configured is not None or (document is not None and server.client_id_metadata_document_supported)
        uri = self._redirect_uri(purpose) if is_known else self._registered_uri(purpose, server)
        registered = None
        if await self._store.begin_attempt(uri, browser):
            registered = await self._store.client(server.issuer, uri)
        # Otherwise this browser was sent there and has not come back, as where a server has forgotten its clients: it
        # cannot say so but on its own page. The gateway then registers anew.
        context = msgspec.structs.replace(context, registered=registered)
        begun = await begin_login(context, self._about(uri), scopes, configured=configured, document=document)
        check_page(begun.request.url)
        client = begun.client
        if configured is None and not client.portable and client != context.registered:
            await self._store.put_client(begun.request.issuer, begun.request.redirect_uri, client)
        return begun

    async def _keep(self, browser: str, login: PendingLogin) -> str:
        request = login.begun.request
        await self._store.put_login(request.state, browser, _encode(login))
        return request.url


def _pem(prover: Prover | None) -> str | None:
    return None if prover is None else prover.key.to_pem()
