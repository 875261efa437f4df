"""Authentication over HTTP: bearer and DPoP tokens, 401 and 403 challenges, protected resource metadata.

2026-07-28 authorization, "Protected Resource Metadata Discovery Requirements", "Token Handling" and "Error Handling";
RFC 6750, section 3; RFC 9449, section 7; RFC 9728. A token is verified here and never passed on to handlers.
"""

from __future__ import annotations

import inspect
import logging
import re
import time
from typing import TYPE_CHECKING

import msgspec

from dovetail.auth import challenge, dpop, scopes, url_guard
from dovetail.auth.errors import AuthorizationFailed, TokenRefused, TokenUnusable
from dovetail.auth.jwk import ALGORITHMS
from dovetail.auth.jwt import LEEWAY
from dovetail.auth.metadata import ProtectedResource, canonical_url, covers, encode_protected_resource
from dovetail.auth.token_verification import Principal, check_binding
from dovetail.protocol.errors import INTERNAL_ERROR, INVALID_REQUEST, LocalError
from dovetail.protocol.request_guard import Headers, Refusal
from dovetail.server.auth.verifiers import Verifier, Verify
from dovetail.storage.contract import StoreError

from .dpop_replay import ReplayCache
from .revoked_tokens import RevokedTokens

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dovetail.transports.http.server.asgi import Scope

logger = logging.getLogger("dovetail")

WELL_KNOWN = "/.well-known/oauth-protected-resource"

_HOST = re.compile(r"[A-Za-z0-9._-]+(:[0-9]+)?|\[[0-9A-Fa-f:.]+\](:[0-9]+)?")
_SCHEMES = {"bearer": "Bearer", "dpop": "DPoP"}
_WEB = {"ws": "http", "wss": "https"}


class AuthenticatedCaller(msgspec.Struct, frozen=True):
    """The client behind a request whose token was accepted."""

    name: str
    scopes: frozenset[str]
    scheme: str
    metadata: str | None
    """The URL of the protected resource metadata."""
    valid_until: float | None = None
    """The time from which the token would be refused, leeway included; None if it does not expire."""
    token_digest: bytes = b""
    revoked_tokens: RevokedTokens | None = None
    """The tokens that may be revoked while this one is in use."""

    def insufficient_scope(self, needed: Iterable[str]) -> Refusal:
        """The 403 that names the scopes a token would need ("Runtime Insufficient Scope Errors")."""
        header = challenge.write(
            self.scheme,
            error="insufficient_scope",
            error_description="The token does not allow this",
            scope=needed,
            algs=ALGORITHMS if self.scheme == "DPoP" else (),
            resource_metadata=self.metadata,
        )
        return Refusal(
            403, INVALID_REQUEST, "Forbidden: the token does not allow this", headers=_challenge_header(header)
        )


class Authenticator:
    """Authenticates the requests to one application."""

    def __init__(
        self,
        verify: Verify,
        path: str,
        resource: str | None,
        replay_cache: ReplayCache | None = None,
        revoked_tokens: RevokedTokens | None = None,
    ) -> None:
        """`replay_cache` remembers the DPoP proofs that were used; by default, those of this process."""
        self._verify = verify
        self._rules = verify if isinstance(verify, Verifier) else Verifier()
        self._path = path.rstrip("/")
        self._replay_cache = replay_cache or ReplayCache()
        self._revoked_tokens = revoked_tokens or RevokedTokens()
        self._resource = resource
        self._base: str | None = None
        if resource is not None:
            parts = url_guard.check_url(resource, "The resource")
            if not parts.path.rstrip("/").endswith(self._path) or parts.query:
                raise LocalError(f"resource must be the URL of the endpoint, ending in {path}, not {resource!r}")
            self._base = canonical_url(resource).rstrip("/").removesuffix(self._path)
        self.metadata_paths = frozenset({WELL_KNOWN + self._path, WELL_KNOWN} if self._rules.issuer else ())
        """The paths that serve the protected resource metadata."""

    async def authenticate(self, scope: Scope, headers: Headers, path: str) -> AuthenticatedCaller | Refusal:
        """The caller that a request's token identifies, or the refusal to answer with."""
        base = self._base_url(scope, headers)
        metadata = base + WELL_KNOWN + self._path if self.metadata_paths else None
        scheme, _, token = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        scheme, token = scheme.lower(), token.strip()
        if scheme not in _SCHEMES or not token:
            return self._unauthorized(metadata, "dpop" if self._rules.dpop else "bearer", None)
        try:
            digest = await self._revoked_tokens.check(token)
            verified = self._verify(token)
            principal = await verified if inspect.isawaitable(verified) else verified
            if isinstance(principal, str):
                principal = Principal(subject=principal)
            if principal is None:
                raise TokenRefused("The token is not accepted")
            await self._check_proof(principal, scheme, token, scope.get("method", "GET"), base + path, headers)
        except TokenRefused as problem:
            logger.info("A token was refused: %s", problem)
            error = "invalid_dpop_proof" if isinstance(problem, _BadProof) else "invalid_token"
            reason = str(problem) if isinstance(problem, TokenUnusable) else None
            return self._unauthorized(metadata, "dpop" if self._rules.dpop else scheme, error, reason)
        except AuthorizationFailed as problem:
            logger.error("Tokens cannot be verified now: %s", problem)
            retry = ((b"retry-after", b"30"),)
            return Refusal(503, INTERNAL_ERROR, "Tokens cannot be verified now; try again later", headers=retry)
        except StoreError as problem:
            # Fail closed: without the store, a replayed proof or a revoked token could not be told from a good one.
            logger.error("Tokens cannot be verified without the store: %s", problem)
            retry = ((b"retry-after", b"1"),)
            return Refusal(503, INTERNAL_ERROR, "Tokens cannot be verified now; try again", headers=retry)
        allowed = scopes.implied(principal.scopes, self._rules.implies)
        until = None if principal.expires_at is None else principal.expires_at + LEEWAY
        name = principal.name_for_issuer(self._rules.issuer)
        caller = AuthenticatedCaller(name, allowed, _SCHEMES[scheme], metadata, until, digest, self._revoked_tokens)
        return caller if allowed.issuperset(self._rules.scopes) else caller.insufficient_scope(self._rules.scopes)

    def metadata_document(self, scope: Scope, headers: Headers) -> bytes:
        """The protected resource metadata (RFC 9728, section 2)."""
        rules, here = self._rules, self._base_url(scope, headers) + self._path
        resource = self._resource or next((one for one in rules.audience if covers(one, here)), here)
        return encode_protected_resource(
            ProtectedResource(
                resource=resource,
                authorization_servers=(rules.issuer,) if rules.issuer else (),
                scopes_supported=rules.scopes or None,
                dpop_bound_access_tokens_required=rules.dpop,
                dpop_signing_alg_values_supported=tuple(ALGORITHMS) if rules.dpop else (),
            )
        )

    async def close(self) -> None:
        """Stop to follow the revocations in the store."""
        await self._revoked_tokens.close()

    async def _check_proof(
        self, principal: Principal, scheme: str, token: str, method: str, url: str, headers: Headers
    ) -> None:
        """Require a valid, unused DPoP proof for a token that is bound to a key."""
        if self._rules.dpop and principal.thumbprint is None:
            raise TokenRefused("The token is not bound to a key")
        proof = None
        if scheme == "dpop":
            header = headers.get(b"dpop", b"").decode("latin-1")
            try:
                proof = dpop.verify(header, method, url, now=time.time(), token=token, thumbprint=principal.thumbprint)
            except TokenRefused as problem:
                raise _BadProof(str(problem)) from None
        check_binding(principal, scheme, proof)
        if proof is not None:
            try:
                await self._replay_cache.mark_used(proof)
            except TokenRefused as problem:
                raise _BadProof(str(problem)) from None

    def _unauthorized(self, metadata: str | None, scheme: str, error: str | None, reason: str | None = None) -> Refusal:
        header = challenge.write(
            _SCHEMES[scheme],
            error=error,
            error_description=reason,
            scope=self._rules.scopes,
            algs=ALGORITHMS if scheme == "dpop" else (),
            resource_metadata=metadata,
        )
        text = f"Unauthorized: {reason or 'a valid token is needed'}"
        return Refusal(401, INVALID_REQUEST, text, headers=_challenge_header(header))

    def _base_url(self, scope: Scope, headers: Headers) -> str:
        """The URL of the application's root: configured, or from the request, whose Host was checked before."""
        if self._base is not None:
            return self._base
        scheme = scope.get("scheme", "http")
        host = headers.get(b"host", b"").decode("latin-1")
        if not _HOST.fullmatch(host):
            host = "localhost"  # with allowed_hosts="*", Host may be something that no URL can hold
        return f"{_WEB.get(scheme, scheme)}://{host}{scope.get('root_path', '')}"


class _BadProof(TokenRefused):
    """The DPoP proof is invalid; the token itself may be valid."""


def _challenge_header(value: str) -> tuple[tuple[bytes, bytes], ...]:
    return ((b"www-authenticate", value.encode()),)
