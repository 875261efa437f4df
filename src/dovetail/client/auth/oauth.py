"""Credentials of a server that wants OAuth: got when it asks for them, kept, and renewed in silence."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Coroutine, Iterable, Mapping
from functools import partial
from typing import Any, TypeVar

import msgspec

from dovetail.auth import discovery, grants, scopes
from dovetail.auth.challenge import NO_CHALLENGE, Challenge
from dovetail.auth.challenge import read as read_challenge
from dovetail.auth.client_authentication import OAuthClient
from dovetail.auth.discovery import DiscoveryResult
from dovetail.auth.dpop import Prover
from dovetail.auth.errors import AuthorizationFailed, Denied, printable
from dovetail.auth.jwk import SigningKey
from dovetail.auth.step_up import StepUp
from dovetail.auth.tokens import Account
from dovetail.protocol.errors import LocalError
from dovetail.runtime.oauth_http import OAuthHttp
from dovetail.transports.http.contract import HttpOptions
from dovetail.transports.http.requester import origin

from .browser_login import OpenPage, loopback
from .grants import BrowserLogin, Grant, GrantContext, LoginRedirect, fixed_redirect
from .token_store import MemoryTokens, TokenStore, account_name, default_tokens

logger = logging.getLogger("dovetail")

MAX_DEMANDS = 64
"""How many different sets of scopes a server may ask for in steps."""

RETRY_SECONDS = 10.0

T = TypeVar("T")


class OAuth:
    """The login at one server; it belongs to the first URL that it is used with, and goes to no other origin.

    By itself it opens the user's browser when the server first wants a token. `client_id` names a client that was
    registered by hand, `document` is the URL of a document about the client; else one is registered. `open_page`
    replaces the browser: it is given the page of the login, and returns where the user was sent back to, which is
    `redirect_uri` with a query. `way` replaces the login: `ClientCredentials` and its like. Tokens are gone with the
    program, unless there is a `store`; an `account` with a name is in the user's own, if no other is given.
    """

    def __init__(
        self,
        way: Grant | None = None,
        *,
        client_id: str | None = None,
        client_secret: str | None = None,
        issuer: str | None = None,
        document: str | None = None,
        name: str = "Dovetail",
        scopes: Iterable[str] = (),
        open_page: OpenPage | None = None,
        redirect_uri: str | None = None,
        store: TokenStore | None = None,
        account: str | None = None,
        dpop: bool = False,
        http: HttpOptions | None = None,
    ) -> None:
        given = None
        if client_id is not None:
            given = OAuthClient(id=client_id, secret=client_secret, issuer=issuer)
        elif client_secret is not None or issuer is not None:
            raise LocalError("A client_secret or an issuer goes with the client_id that it belongs to")
        if way is None:
            way = BrowserLogin(_doorway(open_page, redirect_uri), name=name, client=given, document=document)
        elif given is not None or document is not None or open_page is not None or redirect_uri is not None:
            raise LocalError("What is for a login in the browser has no place beside another way to a token")
        self._way = way
        self._scopes = tuple(scopes)
        if store is None:
            store = MemoryTokens() if account is None else default_tokens()
        self._store = store
        self._label = account or ""
        self._options = http or HttpOptions()
        self._dpop = dpop
        self._url: str | None = None
        self._account: Account | None = None
        self._prover: Prover | None = None
        self._found: DiscoveryResult | None = None
        self._clients: dict[str, OAuthClient] = {}
        self._steps: dict[tuple[str, ...], StepUp] = {}
        self._unproven: str | None = None
        """A token that the server has not yet let through."""
        self._fresh: str | None = None
        """The token that the last login gave."""
        self._patience = 0.0
        """When to try again what could not be renewed in time."""
        self._loaded = False
        self._turn = asyncio.Lock()
        self._working: set[asyncio.Task[Any]] = set()

    async def headers(self, method: str, url: str) -> Mapping[str, str]:
        """The token, if there is one, renewed when it is time."""
        self._bind(url)
        if not self._loaded or self._due(self._account):
            await self._finish(self._prepare())
        account = self._account
        if account is None or account.tokens.expired(time.time()):
            return {}
        tokens, granted = account.tokens, {"authorization": account.tokens.authorization}
        if self._prover is not None:
            granted["dpop"] = self._prover.prove(
                method, url, now=time.time(), random=os.urandom, token=tokens.access_token
            )
        return granted

    def accepted(self, url: str, headers: Mapping[str, str]) -> None:
        """The token is good."""
        self._unproven = None
        if self._prover is not None:
            self._prover.store_nonce(url, headers)

    async def refused(self, url: str, sent: Mapping[str, str], status: int, headers: Mapping[str, str]) -> bool:
        """Get another token: one for more scopes, a renewed one, or one of a new login."""
        self._bind(url)
        challenge = read_challenge(headers)
        news = self._prover is not None and self._prover.store_nonce(url, headers)
        if news and challenge.error == "use_dpop_nonce":
            return True
        if status == 403 and not (challenge.insufficient_scope and "authorization" in sent):
            return False
        return await self._finish(self._replace(sent.get("authorization"), status, challenge))

    async def login(self, url: str) -> None:
        """Get a token before any request asks for one."""
        self._bind(url)
        await self._finish(self._replace(None, 401, NO_CHALLENGE))

    async def login_anew(self, url: str, challenge: Challenge = NO_CHALLENGE) -> Account:
        """Log in whether or not there is a login, given what the server said when it had got no token."""
        self._bind(url)
        return await self._finish(self._enter(challenge))

    async def logout(self, url: str) -> None:
        """Forget the login, and tell the authorization server where it takes note."""
        self._bind(url)
        async with self._turn, self._store.held(self._name):
            account = await self._load()
            await self._store.save(self._name, None)
            self._account = self._prover = None
            if account is not None:
                found = await self._find(NO_CHALLENGE)
                if found.server.issuer == account.issuer:
                    token, hint = account.tokens.refresh_token, "refresh_token"
                    if token is None:
                        token, hint = account.tokens.access_token, "access_token"
                    await self._fetch.run(grants.revoke(self._means(account, found), token, hint))

    async def _finish(self, work: Coroutine[Any, Any, T]) -> T:
        """Do something that goes on when the request that it began for is given up: a user may be in the middle."""
        task = asyncio.get_running_loop().create_task(work)
        self._working.add(task)
        task.add_done_callback(self._over)
        return await asyncio.shield(task)

    def _over(self, task: asyncio.Task[Any]) -> None:
        self._working.discard(task)
        if not task.cancelled():
            task.exception()  # whoever still waits for it is told

    def _bind(self, url: str) -> None:
        if self._url is None:
            self._url = url
            self._name = account_name(url, self._label)
            self._fetch = OAuthHttp(url, self._options)
        elif origin(url) != origin(self._url):
            raise LocalError(f"This login is for {self._url}: another server needs an OAuth of its own")

    async def _load(self) -> Account | None:
        """The login as it is stored now: another process may have renewed it."""
        content = await self._store.load(self._name)
        account = None
        if content is not None:
            try:
                account = Account.decode(content)
            except LocalError as problem:
                logger.warning("%s", problem)
        if account is not None and self._dpop and account.dpop_key is None:
            account = None  # its token would be of use to whoever finds it
        self._loaded = True
        self._adopt(account)
        return account

    def _adopt(self, account: Account | None) -> None:
        self._account = account
        if account is None:
            return
        if not account.client.portable:
            self._clients[account.issuer] = account.client
        if account.dpop_key is None:
            self._prover = None
        elif self._prover is None or self._prover.key.to_pem() != account.dpop_key:
            self._prover = Prover(SigningKey.from_pem(account.dpop_key))

    async def _keep(self, account: Account) -> None:
        self._adopt(account)
        self._unproven = account.tokens.access_token
        await self._store.save(self._name, account.encode())

    def _due(self, account: Account | None) -> bool:
        if account is None or account.tokens.refresh_token is None:
            return False
        now = time.time()
        return account.tokens.needs_refresh(now) and (now >= self._patience or account.tokens.expired(now))

    async def _prepare(self) -> None:
        """Load the login, and renew it when it is time; with one that cannot be renewed, the server will ask."""
        async with self._turn:
            if not self._loaded:
                await self._load()
            if not self._due(self._account):
                return
            async with self._store.held(self._name):
                account = await self._load()
                if account is None or not self._due(account):
                    return
                try:
                    found = self._found or await self._find(NO_CHALLENGE)
                    renewed = await self._refresh(account, found)
                except AuthorizationFailed as problem:
                    if isinstance(problem, Denied):
                        self._account = msgspec.structs.replace(
                            account, tokens=msgspec.structs.replace(account.tokens, refresh_token=None)
                        )
                    elif account.tokens.expired(time.time()):
                        raise
                    self._patience = time.time() + RETRY_SECONDS
                    logger.info("The token for %s was not renewed: %s", self._url, problem)
                else:
                    if not renewed:
                        self._account = None

    async def _replace(self, sent: str | None, status: int, challenge: Challenge) -> bool:
        async with self._turn, self._store.held(self._name):
            account = await self._load()
            if account is not None and account.tokens.authorization != sent and not account.tokens.expired(time.time()):
                return True  # somebody else was quicker
            found = await self._find(challenge)
            if status == 403 and account is not None:
                wanted = self._step_up(challenge, account)
            elif await self._renewed(sent, account, found):
                return True
            else:
                self._check_progress(sent, account, challenge)
                wanted = self._wanted(account, found)
            await self._obtain(found, challenge, wanted)
            return True

    async def _enter(self, challenge: Challenge) -> Account:
        async with self._turn, self._store.held(self._name):
            account = await self._load()
            found = await self._find(challenge)
            return await self._obtain(found, challenge, self._wanted(account, found))

    async def _renewed(self, sent: str | None, account: Account | None, found: DiscoveryResult) -> bool:
        """Try the refresh token; not when what it gave was just refused."""
        if account is None or (account.tokens.authorization == sent and account.tokens.access_token == self._unproven):
            return False
        try:
            return await self._refresh(account, found)
        except Denied as problem:
            logger.info("The login at %s has ended: %s", account.issuer, problem)
            return False

    async def _find(self, challenge: Challenge) -> DiscoveryResult:
        assert self._url is not None
        self._found = await self._fetch.run(discovery.discover(self._url, challenge, known=self._clients))
        return self._found

    async def _refresh(self, account: Account, found: DiscoveryResult) -> bool:
        """Whether there is a new token; a refresh token goes to the authorization server that it is from."""
        if account.tokens.refresh_token is None or found.server.issuer != account.issuer:
            return False
        if found.resource != account.resource:
            return False
        flow = grants.refresh(self._means(account, found), account.tokens, account.resource)
        await self._keep(account.renewed(await self._fetch.run(flow)))
        return True

    def _means(self, account: Account, found: DiscoveryResult) -> grants.TokenRequestContext:
        return grants.TokenRequestContext(found.server, account.client, time.time(), os.urandom, self._prover)

    def _wanted(self, account: Account | None, found: DiscoveryResult) -> tuple[str, ...]:
        if account is None or account.issuer != found.server.issuer:
            return self._scopes
        return scopes.union(self._scopes, account.requested)

    def _step_up(self, challenge: Challenge, account: Account) -> tuple[str, ...]:
        demand = challenge.scopes
        if demand not in self._steps and len(self._steps) >= MAX_DEMANDS:
            raise AuthorizationFailed(f"{self._url} asks for ever more permissions")
        step = self._steps.get(demand, StepUp()).next_attempt(challenge, account.requested, account.tokens.scopes)
        self._steps[demand] = step
        return step.wanted

    def _check_progress(self, sent: str | None, account: Account | None, challenge: Challenge) -> None:
        """Give up where a new login would end as the last one did."""
        if sent is None or account is None or not account.tokens.access_token == self._unproven == self._fresh:
            return
        if set(challenge.scopes) <= set(account.requested):
            why = printable(challenge.error_description or challenge.error or "it does not say why")
            raise AuthorizationFailed(f"{self._url} refuses the token that was just given out for it ({why})")

    async def _obtain(self, found: DiscoveryResult, challenge: Challenge, before: tuple[str, ...]) -> Account:
        bound = found.protected is not None and found.protected.dpop_bound_access_tokens_required
        prover = self._prover
        if prover is None and (self._dpop or bound):
            prover = Prover(SigningKey.generate())
        situation = GrantContext(
            fetch=self._fetch,
            found=found,
            challenge=challenge,
            before=before,
            prover=prover,
            earlier=None if self._account is None else self._account.client,
            registered=self._clients.get(found.server.issuer),
        )
        account = await self._way.obtain(situation)
        self._prover = prover
        await self._keep(account)
        self._fresh = account.tokens.access_token
        return account


def _doorway(open_page: OpenPage | None, redirect_uri: str | None) -> LoginRedirect:
    if open_page is None:
        return partial(loopback, redirect_uri)
    if redirect_uri is None:
        raise LocalError("With an open_page of your own, say where users are sent back to: redirect_uri")
    return fixed_redirect(open_page, redirect_uri)
