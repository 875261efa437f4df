"""OAuth credentials of one server: obtained when the server requires them, stored, and renewed without the user."""

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
from .token_state import RETRY_SECONDS, Event, TokenState
from .token_store import MemoryTokens, TokenStore, account_name, default_tokens

logger = logging.getLogger("dovetail")

MAX_DEMANDS = 64
"""The most different sets of scopes that a server may require in step-up authorizations."""

T = TypeVar("T")


class OAuth:
    """The login at one server; it is bound to the first URL that it is used with, and sent to no other origin.

    By default it opens the user's browser when the server first requires a token. `client_id` names a client that was
    registered by hand, `document` is the URL of a client ID metadata document; otherwise a client is registered.
    `open_page` replaces the browser: it gets the URL of the login page, and returns the URL of the redirect, which is
    `redirect_uri` with a query. `grant` replaces the browser login, for instance with `ClientCredentials`.
    Tokens are kept in memory, unless there is a `store`; a named `account` is kept in the user's own store by default.
    """

    def __init__(
        self,
        grant: Grant | None = None,
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
        if grant is None:
            grant = BrowserLogin(_login_redirect(open_page, redirect_uri), name=name, client=given, document=document)
        elif given is not None or document is not None or open_page is not None or redirect_uri is not None:
            raise LocalError("The options of a browser login cannot be combined with another grant")
        self._grant = grant
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
        self._discovered: DiscoveryResult | None = None
        self._clients: dict[str, OAuthClient] = {}
        self._steps: dict[tuple[str, ...], StepUp] = {}
        self._token = TokenState()
        self._lock = asyncio.Lock()
        self._tasks: set[asyncio.Task[Any]] = set()

    async def headers(self, method: str, url: str) -> Mapping[str, str]:
        """The headers with the token, if there is one; it is renewed before it expires."""
        self._bind(url)
        if not self._token.loaded or self._is_due(self._account):
            await self._run_to_end(self._prepare())
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
        """The server has accepted a request."""
        if self._token.untested:
            self._token = self._token.after(Event.ACCEPTED)
        if self._prover is not None:
            self._prover.store_nonce(url, headers)

    async def refused(self, url: str, sent: Mapping[str, str], status: int, headers: Mapping[str, str]) -> bool:
        """Obtain another token: one with more scopes, a renewed one, or one of a new login."""
        self._bind(url)
        challenge = read_challenge(headers)
        new_nonce = self._prover is not None and self._prover.store_nonce(url, headers)
        if new_nonce and challenge.error == "use_dpop_nonce":
            return True
        if status == 403 and not (challenge.insufficient_scope and "authorization" in sent):
            return False
        return await self._run_to_end(self._replace(sent.get("authorization"), status, challenge))

    async def login(self, url: str) -> None:
        """Obtain a token before the first request."""
        self._bind(url)
        await self._run_to_end(self._replace(None, 401, NO_CHALLENGE))

    async def login_again(self, url: str, challenge: Challenge = NO_CHALLENGE) -> Account:
        """Log in even if there is a login; `challenge` is the server's answer to a request without a token."""
        self._bind(url)
        return await self._run_to_end(self._login(challenge))

    def load_again(self) -> None:
        """Read the login from the store before the next request: it was replaced there."""
        self._token = TokenState()

    async def logout(self, url: str) -> None:
        """Remove the login, and revoke its token where the authorization server supports that."""
        self._bind(url)
        async with self._lock, self._store.held(self._name):
            account = await self._load()
            await self._store.save(self._name, None)
            self._account = self._prover = None
            self._token = self._token.after(Event.REMOVED)
            if account is not None:
                discovered = await self._discover(NO_CHALLENGE)
                if discovered.server.issuer == account.issuer:
                    token, hint = account.tokens.refresh_token, "refresh_token"
                    if token is None:
                        token, hint = account.tokens.access_token, "access_token"
                    await self._http.run(grants.revoke(self._means(account, discovered), token, hint))

    async def _run_to_end(self, work: Coroutine[Any, Any, T]) -> T:
        """Run work that goes on when the request that started it is cancelled: a user may be logging in."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._task_ended)
        return await asyncio.shield(task)

    def _task_ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # retrieved, so that it is not logged where no caller waits any more

    def _bind(self, url: str) -> None:
        if self._url is None:
            self._url = url
            self._name = account_name(url, self._label)
            self._http = OAuthHttp(url, self._options)
        elif origin(url) != origin(self._url):
            raise LocalError(f"This login is for {self._url}: another server needs an OAuth of its own")

    async def _load(self) -> Account | None:
        """Load the login as it is stored now: another process may have renewed it."""
        content = await self._store.load(self._name)
        account = None
        if content is not None:
            try:
                account = Account.decode(content)
            except LocalError as problem:
                logger.warning("%s", problem)
        if account is not None and self._dpop and account.dpop_key is None:
            account = None  # its token is not bound to a key, so a thief could use it
        self._token = self._token.after_load(None if account is None else account.tokens.access_token)
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

    async def _save(self, account: Account, event: Event) -> None:
        self._adopt(account)
        self._token = self._token.after(event, account.tokens.access_token)
        await self._store.save(self._name, account.encode())

    def _is_due(self, account: Account | None) -> bool:
        """True if a token is to be renewed before it is used."""
        if account is None or account.tokens.refresh_token is None:
            return False
        now = time.time()
        return account.tokens.needs_refresh(now) and (self._token.may_renew(now) or account.tokens.expired(now))

    async def _prepare(self) -> None:
        """Load the login, and renew it if it is due; after a failed renewal the server's refusal leads to a login."""
        async with self._lock:
            if not self._token.loaded:
                await self._load()
            if not self._is_due(self._account):
                return
            async with self._store.held(self._name):
                account = await self._load()
                if account is None or not self._is_due(account):
                    return
                try:
                    discovered = self._discovered or await self._discover(NO_CHALLENGE)
                    renewed = await self._refresh(account, discovered)
                except AuthorizationFailed as problem:
                    if isinstance(problem, Denied):
                        self._account = msgspec.structs.replace(
                            account, tokens=msgspec.structs.replace(account.tokens, refresh_token=None)
                        )
                    elif account.tokens.expired(time.time()):
                        raise
                    self._token = self._token.after(Event.RENEWAL_FAILED, retry_at=time.time() + RETRY_SECONDS)
                    logger.info("The token for %s was not renewed: %s", self._url, problem)
                else:
                    if not renewed:
                        self._account, self._token = None, self._token.after(Event.REMOVED)

    async def _replace(self, sent: str | None, status: int, challenge: Challenge) -> bool:
        async with self._lock, self._store.held(self._name):
            account = await self._load()
            if account is not None and account.tokens.authorization != sent and not account.tokens.expired(time.time()):
                return True  # another request or process has replaced it meanwhile
            discovered = await self._discover(challenge)
            if status == 403 and account is not None:
                wanted = self._step_up(challenge, account)
            elif await self._renew_refused(sent, account, discovered):
                return True
            else:
                self._check_progress(sent, account, challenge)
                wanted = self._wanted_scopes(account, discovered)
            await self._obtain(discovered, challenge, wanted)
            return True

    async def _login(self, challenge: Challenge) -> Account:
        async with self._lock, self._store.held(self._name):
            account = await self._load()
            discovered = await self._discover(challenge)
            return await self._obtain(discovered, challenge, self._wanted_scopes(account, discovered))

    async def _renew_refused(self, sent: str | None, account: Account | None, discovered: DiscoveryResult) -> bool:
        """Try the refresh token, unless the refused token was just obtained."""
        if account is None or (account.tokens.authorization == sent and self._token.untested):
            return False
        try:
            return await self._refresh(account, discovered)
        except Denied as problem:
            logger.info("The login at %s has ended: %s", account.issuer, problem)
            return False

    async def _discover(self, challenge: Challenge) -> DiscoveryResult:
        assert self._url is not None
        self._discovered = await self._http.run(discovery.discover(self._url, challenge, known=self._clients))
        return self._discovered

    async def _refresh(self, account: Account, discovered: DiscoveryResult) -> bool:
        """Renew the token; False if there is no refresh token from this authorization server."""
        if account.tokens.refresh_token is None or discovered.server.issuer != account.issuer:
            return False
        if discovered.resource != account.resource:
            return False
        flow = grants.refresh(self._means(account, discovered), account.tokens, account.resource)
        await self._save(account.renewed(await self._http.run(flow)), Event.RENEWAL)
        return True

    def _means(self, account: Account, discovered: DiscoveryResult) -> grants.TokenRequestContext:
        return grants.TokenRequestContext(discovered.server, account.client, time.time(), os.urandom, self._prover)

    def _wanted_scopes(self, account: Account | None, discovered: DiscoveryResult) -> tuple[str, ...]:
        if account is None or account.issuer != discovered.server.issuer:
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
        """Raise where another login would end as the last one did."""
        if sent is None or account is None or not self._token.from_login:
            return
        if set(challenge.scopes) <= set(account.requested):
            why = printable(challenge.error_description or challenge.error or "it does not say why")
            raise AuthorizationFailed(f"{self._url} refuses the token that was just given out for it ({why})")

    async def _obtain(self, discovered: DiscoveryResult, challenge: Challenge, wanted: tuple[str, ...]) -> Account:
        protected, prover = discovered.protected, self._prover
        if prover is None and (self._dpop or (protected is not None and protected.dpop_bound_access_tokens_required)):
            prover = Prover(SigningKey.generate())
        context = GrantContext(
            http=self._http,
            discovered=discovered,
            challenge=challenge,
            earlier_scopes=wanted,
            prover=prover,
            earlier_client=None if self._account is None else self._account.client,
            registered=self._clients.get(discovered.server.issuer),
        )
        account = await self._grant.obtain(context)
        self._prover = prover
        await self._save(account, Event.LOGIN)
        return account


def _login_redirect(open_page: OpenPage | None, redirect_uri: str | None) -> LoginRedirect:
    if open_page is None:
        return partial(loopback, redirect_uri)
    if redirect_uri is None:
        raise LocalError("With an open_page of your own, say where users are sent back to: redirect_uri")
    return fixed_redirect(open_page, redirect_uri)
