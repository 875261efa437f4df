"""Logins of users in a browser: at the gateway, to prove who they are, and at servers, to connect accounts.

A login begins at one gateway and may end at another. What is known of it in between is an entry of the store, bound to
the browser in which it began (2026-07-28 elicitation, "Phishing"): a link that someone else has made, or a redirect
that someone else has answered, is of no use in it.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from dovetail.auth import discovery
from dovetail.auth.challenge import NO_CHALLENGE, Challenge
from dovetail.auth.client_authentication import OAuthClient
from dovetail.auth.discovery import DiscoveryResult
from dovetail.auth.dpop import Prover
from dovetail.auth.jwk import SigningKey
from dovetail.auth.registration import ClientMetadata
from dovetail.auth.tokens import Account
from dovetail.client.auth.browser_login import check_page
from dovetail.client.auth.challenge_probe import probe_challenge
from dovetail.client.auth.grants import BegunLogin, GrantContext, begin_login, finish_login
from dovetail.runtime.oauth_http import OAuthHttp
from dovetail.transports.http.contract import HttpOptions

from .account_store import AccountStore

CALLBACK = "/accounts/callback"
CLIENT_DOCUMENT = "/accounts/client.json"


class PendingLogin(msgspec.Struct, frozen=True, kw_only=True):
    """A login that has begun, and what it is for."""

    purpose: Literal["gateway", "account"]
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
        self._about = ClientMetadata(name=name, redirect_uris=(base + CALLBACK,), uri=base)

    @property
    def client_document(self) -> str | None:
        """The URL of the client metadata document of the gateway; None where others could not read it."""
        return self.base + CLIENT_DOCUMENT if self.base.startswith("https:") else None

    def describe_client(self) -> bytes:
        """The client metadata document."""
        assert self.client_document is not None
        return msgspec.json.encode(self._about.document(self.client_document))

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
        context = await self._context(http, found, NO_CHALLENGE, Prover(SigningKey.generate()) if dpop else None)
        begun = await self._begin(context, scopes, configured)
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
        context = await self._context(http, found, challenge, Prover(SigningKey.generate()) if bound else None, scopes)
        begun = await self._begin(context, context.scopes(offline=True), configured)
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

    async def take(self, browser: str, state: str) -> PendingLogin | None:
        """The login that a redirect belongs to, once; None if it did not begin in this browser, or has expired."""
        content = await self._store.take_login(state, browser)
        return None if content is None else _decode(content)

    async def finish(self, login: PendingLogin, response: str) -> Account:
        """Exchange the code in the query of a redirect for tokens."""
        prover = None if login.dpop_key is None else Prover(SigningKey.from_pem(login.dpop_key))
        http = OAuthHttp(login.home, HttpOptions())
        context = await self._context(http, login.discovered, NO_CHALLENGE, prover)
        return await finish_login(context, login.begun, response)

    async def _context(
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
            registered=await self._store.client(found.server.issuer, self._about.redirect_uris[0]),
        )

    async def _begin(
        self, context: GrantContext, scopes: tuple[str, ...], configured: OAuthClient | None
    ) -> BegunLogin:
        begun = await begin_login(context, self._about, scopes, configured=configured, document=self.client_document)
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
