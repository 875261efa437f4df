"""Who may use a server: verifiers for `Server(auth=…)`.

2026-07-28 authorization, "Token Handling": only tokens that were made for this server are accepted.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from time import monotonic, time
from typing import TYPE_CHECKING, TypeVar

from dovetail.auth import scopes as scope_rules
from dovetail.auth import token_verification
from dovetail.auth.client_authentication import Client
from dovetail.auth.discovery import find_server
from dovetail.auth.errors import AuthorizationFailed, TokenRefused, UnknownKey
from dovetail.auth.grants import Means
from dovetail.auth.jwk import ALGORITHMS
from dovetail.auth.metadata import AuthorizationServer, check_issuer
from dovetail.auth.token_verification import KeyStore, Principal, Rules
from dovetail.protocol.errors import LocalError

from .token_cache import RecentAnswers

if TYPE_CHECKING:
    from dovetail.auth.http import Flow
    from dovetail.transports.http.contract import HttpOptions

T = TypeVar("T")

MAX_TOKEN = 16 * 1024
"""How long a token may be; work on it grows with its length."""

CACHE_SECONDS = 10.0
"""How long what an issuer said about a token is good, unless the server says otherwise."""

FAILED_PAUSE = 2.0
"""How long an issuer that gave no keys is not asked again, in seconds."""


class Verifier:
    """Tells who a token belongs to, and what clients need to know to get one; to be derived from."""

    issuer: str | None = None
    """Whose tokens are accepted; with it the server says of itself where tokens are had."""
    audience: tuple[str, ...] = ()
    """Whom tokens must be meant for."""
    scopes: tuple[str, ...] = ()
    """What every token must allow, whatever is asked for."""
    implies: Mapping[str, Sequence[str]] = {}
    """Scopes that include others: `{"admin": ["write"], "write": ["read"]}`."""
    dpop: bool = False
    """Whether tokens must be bound to a key (RFC 9449); those that are must show it in any case."""

    async def __call__(self, token: str) -> Principal | None:
        """Who a token belongs to; None, or `TokenRefused`, for one that is not accepted."""
        raise NotImplementedError


class StaticTokens(Verifier):
    """Fixed tokens, for development: who each belongs to, by name or with scopes."""

    def __init__(
        self,
        tokens: Mapping[str, Principal | str],
        *,
        scopes: Sequence[str] = (),
        implies: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self.scopes, self.implies = _checked(scopes), _hierarchy(implies)
        self._tokens = token_verification.StaticTokens(
            {token: Principal(subject=who) if isinstance(who, str) else who for token, who in tokens.items()}
        )

    async def __call__(self, token: str) -> Principal:
        """Who a token belongs to."""
        return self._tokens.check(token)


class JWTVerifier(Verifier):
    """Signed tokens of one issuer (RFC 9068), checked with the keys that it publishes."""

    def __init__(
        self,
        *,
        issuer: str,
        audience: str | Sequence[str],
        scopes: Sequence[str] = (),
        implies: Mapping[str, Sequence[str]] | None = None,
        jwks_uri: str | None = None,
        algorithms: Sequence[str] = ALGORITHMS,
        dpop: bool = False,
        http: HttpOptions | None = None,
    ) -> None:
        """`audience` is what tokens must be meant for, as a rule the URL of the server.

        Without `jwks_uri`, the metadata of the issuer say where its keys are.
        """
        self.issuer = issuer
        self.audience = _texts(audience)
        self.scopes, self.implies = _checked(scopes), _hierarchy(implies)
        self.dpop = dpop
        self._rules = Rules(issuer=issuer, audience=self.audience, algorithms=tuple(algorithms))
        self._source = _Source(issuer, http)
        self._jwks_uri = jwks_uri
        self._keys = KeyStore()
        self._asked_at = float("-inf")
        self._fetching: asyncio.Task[None] | None = None

    async def __call__(self, token: str) -> Principal:
        """Who a token belongs to; its issuer is asked for keys at the first one, and now and then."""
        if len(token) > MAX_TOKEN:
            raise TokenRefused("The token is too long")
        await self._refresh(unknown=False)
        try:
            return self._rules.check(token, self._keys.keys, time())
        except UnknownKey:
            if not await self._refresh(unknown=True):
                raise
        return self._rules.check(token, self._keys.keys, time())

    async def _refresh(self, *, unknown: bool) -> bool:
        """Fetch the keys if that is due, together with whoever else waits for them; whether they are newer now."""
        if not self._keys.due(monotonic(), unknown=unknown):
            return False
        had = self._keys
        if self._fetching is None or self._fetching.done():
            # An issuer that fails has its pause too, or every token would be another question to it.
            since = monotonic() - self._asked_at
            if had.keys and since < token_verification.KEYS_PAUSE:
                return False
            if not had.keys and since < FAILED_PAUSE:
                raise AuthorizationFailed(f"The keys of {self.issuer} could not be had a moment ago")
            self._asked_at = monotonic()
            self._fetching = asyncio.create_task(self._fetch())
            self._fetching.add_done_callback(_look_at)
        try:
            await asyncio.shield(self._fetching)
        except AuthorizationFailed:
            if not had.keys:
                raise
        return self._keys is not had

    async def _fetch(self) -> None:
        url = self._jwks_uri
        if url is None:
            url = (await self._source.metadata()).jwks_uri
            if url is None:
                raise AuthorizationFailed(f"The metadata of {self.issuer} do not say where its keys are (jwks_uri)")
        self._keys = await self._source.run(token_verification.fetch_keys(url, monotonic()))


class Introspection(Verifier):
    """Tokens of any kind, about each of which the issuer is asked (RFC 7662)."""

    def __init__(
        self,
        *,
        issuer: str,
        audience: str | Sequence[str],
        client_id: str,
        client_secret: str,
        scopes: Sequence[str] = (),
        implies: Mapping[str, Sequence[str]] | None = None,
        endpoint: str | None = None,
        cache: float = CACHE_SECONDS,
        dpop: bool = False,
        http: HttpOptions | None = None,
    ) -> None:
        """The client is this server, as the issuer knows it; without `endpoint`, the metadata say where to ask.

        An answer is good for `cache` seconds, and never longer than its token; a revoked token works for that long
        still. With 0 the issuer is asked about every request.
        """
        self.issuer = issuer
        self.audience = _texts(audience)
        self.scopes, self.implies = _checked(scopes), _hierarchy(implies)
        self.dpop = dpop
        if not all(self.audience) or not self.audience:
            raise LocalError("To check tokens, an audience is needed: whom they are for")
        self._client = Client(id=client_id, issuer=issuer, secret=client_secret)
        self._source = _Source(issuer, http)
        self._recent = RecentAnswers(cache)
        self._server = None if endpoint is None else AuthorizationServer(issuer=issuer, introspection_endpoint=endpoint)

    async def __call__(self, token: str) -> Principal:
        """Who a token belongs to, says the issuer."""
        if len(token) > MAX_TOKEN:
            raise TokenRefused("The token is too long")
        return await self._recent.get(token, self._ask)

    async def _ask(self, token: str) -> Principal:
        if self._server is None:
            self._server = await self._source.metadata()
        means = Means(self._server, self._client, time(), os.urandom)
        return await self._source.run(token_verification.introspect(means, token, self.audience))


class _Source:
    """The issuer, asked over HTTP."""

    def __init__(self, issuer: str, http: HttpOptions | None) -> None:
        check_issuer(issuer)
        self._issuer = issuer
        self._http = http

    async def metadata(self) -> AuthorizationServer:
        """What it says of itself."""
        return await self.run(find_server(self._issuer))

    async def run(self, flow: Flow[T]) -> T:
        """Run a flow to its end, at places that the issuer may name."""
        from dovetail.runtime.oauth_http import OAuthHttp
        from dovetail.transports.http.contract import HttpOptions

        return await OAuthHttp(self._issuer, self._http or HttpOptions()).run(flow)


def _look_at(task: asyncio.Task[None]) -> None:
    """Take note of how it ended, should everybody who waited be gone."""
    if not task.cancelled():
        task.exception()


def _texts(given: str | Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _checked(given: Sequence[str]) -> tuple[str, ...]:
    if isinstance(given, str):
        raise LocalError(f"A list of scopes is needed, not a text: [{given!r}]")
    return scope_rules.checked(given)


def _hierarchy(given: Mapping[str, Sequence[str]] | None) -> dict[str, tuple[str, ...]]:
    return {scope: _checked(below) for scope, below in (given or {}).items()}
