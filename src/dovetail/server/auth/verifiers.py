"""Token verifiers for `Server(auth=…)`: fixed tokens, signed tokens (JWT), and token introspection.

2026-07-28 authorization, "Token Handling": only tokens that were issued for this server are accepted.
"""

from __future__ import annotations

import asyncio
import copy
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from time import monotonic, time
from typing import TYPE_CHECKING, Self, TypeAlias, TypeVar

from dovetail.auth import scopes as scope_rules
from dovetail.auth import token_verification
from dovetail.auth.client_authentication import OAuthClient
from dovetail.auth.discovery import find_authorization_server
from dovetail.auth.errors import AuthorizationFailed, TokenRefused, UnknownKey
from dovetail.auth.grants import TokenRequestContext
from dovetail.auth.jwk import ALGORITHMS
from dovetail.auth.metadata import AuthorizationServer, check_issuer
from dovetail.auth.token_verification import IssuerKeys, Principal, TokenRules
from dovetail.protocol.errors import LocalError

from .token_cache import TokenCache

if TYPE_CHECKING:
    from dovetail.auth.http import Flow
    from dovetail.auth.jwk import PublicKey
    from dovetail.runtime.oauth_http import OAuthHttp
    from dovetail.transports.http.contract import HttpOptions

T = TypeVar("T")

MAX_TOKEN = 16 * 1024
"""The longest token that is looked at, because work on it grows with its length."""

CACHE_SECONDS = 10.0
"""Default seconds for which the result of an introspection is cached."""

MAX_INTROSPECTIONS = 16
"""Introspections that run at once; further ones wait, so that a flood of invented tokens does not reach the issuer."""

RETRY_SECONDS = 2.0
"""Seconds before keys are fetched again from an issuer that failed to provide any."""

Verified: TypeAlias = "Principal | str | None"
Verify: TypeAlias = "Callable[[str], Awaitable[Verified] | Verified]"
"""A function from a token to its principal, or the principal's name; None refuses the token."""


class Verifier:
    """Base class of token verifiers: maps a token to its principal, and tells clients how to obtain a token."""

    issuer: str | None = None
    """The authorization server whose tokens are accepted; if set, the server publishes its resource metadata."""
    audience: tuple[str, ...] = ()
    """The audiences of which a token must name one."""
    scopes: tuple[str, ...] = ()
    """The scopes that every request needs."""
    implies: Mapping[str, Sequence[str]] = {}
    """Scopes that include others: `{"admin": ["write"], "write": ["read"]}`."""
    dpop: bool = False
    """True if every token must be bound to a key (RFC 9449); a token that is bound always needs a proof."""

    async def __call__(self, token: str) -> Principal | None:
        """The principal of a token; None, or `TokenRefused`, if the token is not accepted."""
        raise NotImplementedError

    def with_audience(self, audience: tuple[str, ...]) -> Verifier:
        """A verifier of tokens for other audiences, for a part of a server with a URL of its own.

        By default the verifier itself, which decides about audiences in its own way.
        """
        return self


class StaticTokens(Verifier):
    """Fixed tokens, for development: the principal of each, or its name."""

    def __init__(
        self,
        tokens: Mapping[str, Principal | str],
        *,
        scopes: Sequence[str] = (),
        implies: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self.scopes, self.implies = _checked(scopes), _hierarchy(implies)
        self._tokens = token_verification.TokenTable(
            {token: Principal(subject=one) if isinstance(one, str) else one for token, one in tokens.items()}
        )

    async def __call__(self, token: str) -> Principal:
        """The principal of a token."""
        return self._tokens.check(token)


class JWTVerifier(Verifier):
    """Signed tokens of one issuer (RFC 9068), verified with the keys that it publishes."""

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
        """`audience` is usually the URL of the server. Without `jwks_uri`, the issuer's metadata name it."""
        self.issuer = issuer
        self.audience = _texts(audience)
        self.scopes, self.implies = _checked(scopes), _hierarchy(implies)
        self.dpop = dpop
        self._rules = TokenRules(issuer=issuer, audience=self.audience, algorithms=tuple(algorithms))
        self._keys = _KeySource(issuer, _Issuer(issuer, http), jwks_uri)

    async def __call__(self, token: str) -> Principal:
        """The principal of a token; keys are fetched for the first one, and again when they are due."""
        if len(token) > MAX_TOKEN:
            raise TokenRefused("The token is too long")
        await self._keys.refresh(unknown=False)
        try:
            return self._rules.check(token, self._keys.current, time(), self.audience)
        except UnknownKey:
            if not await self._keys.refresh(unknown=True):
                raise
        return self._rules.check(token, self._keys.current, time(), self.audience)

    def with_audience(self, audience: tuple[str, ...]) -> Self:
        """The same verifier, with the same keys, for tokens of other audiences."""
        other = copy.copy(self)
        other.audience = audience
        return other


class _KeySource:
    """The keys of an issuer, fetched when they are due; verifiers with different audiences share it."""

    def __init__(self, url: str, issuer: _Issuer, jwks_uri: str | None) -> None:
        self._url = url
        self._issuer = issuer
        self._jwks_uri = jwks_uri
        self._keys = IssuerKeys()
        self._fetched_at = float("-inf")
        self._fetching: asyncio.Task[None] | None = None

    @property
    def current(self) -> tuple[PublicKey, ...]:
        """The keys that were fetched last."""
        return self._keys.keys

    async def refresh(self, *, unknown: bool) -> bool:
        """Fetch the keys if that is due, once for all requests that wait for them; return True if they are new."""
        if not self._keys.is_due(monotonic(), unknown=unknown):
            return False
        old = self._keys
        if self._fetching is None or self._fetching.done():
            # Also after a failure: otherwise every token would be another request to an issuer in trouble.
            since = monotonic() - self._fetched_at
            if old.keys and since < token_verification.KEYS_PAUSE:
                return False
            if not old.keys and since < RETRY_SECONDS:
                raise AuthorizationFailed(f"The keys of {self._url} could not be fetched a moment ago")
            self._fetched_at = monotonic()
            self._fetching = asyncio.create_task(self._fetch())
            self._fetching.add_done_callback(_retrieve_exception)
        try:
            await asyncio.shield(self._fetching)
        except AuthorizationFailed:
            if not old.keys:
                raise
        return self._keys is not old

    async def _fetch(self) -> None:
        url = self._jwks_uri
        if url is None:
            url = (await self._issuer.metadata()).jwks_uri
            if url is None:
                raise AuthorizationFailed(f"The metadata of {self._url} have no jwks_uri")
        self._keys = await self._issuer.run(token_verification.fetch_keys(url, monotonic()))


class Introspection(Verifier):
    """Tokens of any format, verified by the issuer's introspection endpoint (RFC 7662)."""

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
        """`client_id` and `client_secret` identify this server to the issuer, whose metadata name the `endpoint`.

        Results are cached for `cache` seconds, and never beyond the token's expiry; a revoked token keeps working for
        that long. Refusals are cached for at most 2 seconds. With 0, every request is an introspection.
        """
        self.issuer = issuer
        self.audience = _texts(audience)
        self.scopes, self.implies = _checked(scopes), _hierarchy(implies)
        self.dpop = dpop
        if not all(self.audience) or not self.audience:
            raise LocalError("Introspection needs an audience: usually the URL of this server")
        self._client = OAuthClient(id=client_id, issuer=issuer, secret=client_secret)
        self._issuer = _Issuer(issuer, http)
        self._cache = TokenCache(cache)
        if endpoint is not None:
            self._issuer.server = AuthorizationServer(issuer=issuer, introspection_endpoint=endpoint)

    async def __call__(self, token: str) -> Principal:
        """The principal of a token, as the issuer reports it."""
        if len(token) > MAX_TOKEN:
            raise TokenRefused("The token is too long")
        principal = await self._cache.get(token, self._introspect)
        # Not part of what is cached, which verifiers with different audiences share.
        token_verification.check_audience(principal.claims, self.audience)
        return principal

    def with_audience(self, audience: tuple[str, ...]) -> Self:
        """The same verifier, with the same cache, for tokens of other audiences."""
        other = copy.copy(self)
        other.audience = audience
        return other

    async def _introspect(self, token: str) -> Principal:
        context = TokenRequestContext(await self._issuer.known_metadata(), self._client, time(), os.urandom)
        return await self._issuer.run_shared(token_verification.introspect(context, token))


class _Issuer:
    """Requests to an authorization server."""

    def __init__(self, issuer: str, http: HttpOptions | None) -> None:
        check_issuer(issuer)
        self._url = issuer
        self._http = http
        self._shared: OAuthHttp | None = None
        self._users = 0
        self._slots = asyncio.Semaphore(MAX_INTROSPECTIONS)
        self._discovery = asyncio.Lock()
        self.server: AuthorizationServer | None = None
        """Its metadata, if they are known."""

    async def known_metadata(self) -> AuthorizationServer:
        """Its metadata, which are fetched once."""
        async with self._discovery:
            self.server = self.server or await self.metadata()
            return self.server

    async def metadata(self) -> AuthorizationServer:
        """Its metadata (RFC 8414)."""
        return await self.run(find_authorization_server(self._url))

    async def run(self, flow: Flow[T]) -> T:
        """Run an OAuth flow, limited to addresses that the issuer may name."""
        from dovetail.runtime.oauth_http import OAuthHttp
        from dovetail.transports.http.contract import HttpOptions

        return await OAuthHttp(self._url, self._http or HttpOptions()).run(flow)

    async def run_shared(self, flow: Flow[T]) -> T:
        """The same for flows of which many come at once: a few run, over connections that they share.

        The connections are closed when no flow runs or waits.
        """
        from dovetail.runtime.oauth_http import OAuthHttp
        from dovetail.transports.http.contract import HttpOptions

        shared = self._shared
        if shared is None:
            shared = self._shared = OAuthHttp(self._url, self._http or HttpOptions(), keep=True)
        self._users += 1
        try:
            async with self._slots:
                return await shared.run(flow)
        finally:
            self._users -= 1
            if self._users == 0:
                self._shared = None
                await shared.close()


def _retrieve_exception(task: asyncio.Task[None]) -> None:
    """Keep the loop from logging a failure when every request that waited was cancelled."""
    if not task.cancelled():
        task.exception()


def _texts(given: str | Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _checked(given: Sequence[str]) -> tuple[str, ...]:
    if isinstance(given, str):
        raise LocalError(f"scopes must be a list, such as [{given!r}], not a string")
    return scope_rules.check_scopes(given)


def _hierarchy(given: Mapping[str, Sequence[str]] | None) -> dict[str, tuple[str, ...]]:
    return {scope: _checked(below) for scope, below in (given or {}).items()}
