"""Who is let in over HTTP, and what the others are told: tokens, challenges, and where tokens are had.

2026-07-28 authorization, "Protected Resource Metadata Discovery Requirements", "Token Handling" and "Error Handling";
RFC 6750, section 3; RFC 9449, section 7; RFC 9728. A token is looked at here and goes no further.
"""

from __future__ import annotations

import inspect
import logging
import re
import time
from typing import TYPE_CHECKING

import msgspec

from dovetail.auth import challenge, dpop, scopes, url_guard
from dovetail.auth.errors import AuthorizationFailed, TokenRefused
from dovetail.auth.jwk import ALGORITHMS
from dovetail.auth.jwt import LEEWAY
from dovetail.auth.metadata import ProtectedResource, canonical, covers, write_protected
from dovetail.auth.token_verification import Principal, check_binding
from dovetail.protocol.errors import INTERNAL_ERROR, INVALID_REQUEST, LocalError
from dovetail.protocol.request_guard import Headers, Refusal
from dovetail.server.auth.verifiers import Verifier

from .dpop_replay import OwnProofs, Proofs

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dovetail.server.app import Verify
    from dovetail.transports.http.server.asgi import Scope

logger = logging.getLogger("dovetail")

WELL_KNOWN = "/.well-known/oauth-protected-resource"

_HOST = re.compile(r"[A-Za-z0-9._-]+(:[0-9]+)?|\[[0-9A-Fa-f:.]+\](:[0-9]+)?")
_SCHEMES = {"bearer": "Bearer", "dpop": "DPoP"}
_WEB = {"ws": "http", "wss": "https"}


class Visitor(msgspec.Struct, frozen=True):
    """Who has shown a token that is good."""

    name: str
    scopes: frozenset[str]
    scheme: str
    metadata: str | None
    """Where the server says which tokens it takes."""
    until: float | None = None
    """From when on the token would be refused; None where nothing is known of an end."""

    def lacks(self, needed: Iterable[str]) -> Refusal:
        """The refusal of what the token does not allow, and another one might ("Runtime Insufficient Scope Errors")."""
        told = challenge.write(
            self.scheme,
            error="insufficient_scope",
            error_description="The token does not allow this",
            scope=needed,
            algs=ALGORITHMS if self.scheme == "DPoP" else (),
            resource_metadata=self.metadata,
        )
        return Refusal(403, INVALID_REQUEST, "Forbidden: the token does not allow this", headers=_header(told))


class Gate:
    """The check of tokens for one application."""

    def __init__(self, verify: Verify, path: str, resource: str | None, proofs: Proofs | None = None) -> None:
        """`proofs` remembers which proofs were used; without it this process does."""
        self._verify = verify
        self._rules = verify if isinstance(verify, Verifier) else Verifier()
        self._path = path.rstrip("/")
        self._proofs = proofs or OwnProofs()
        self._resource = resource
        self._base: str | None = None
        if resource is not None:
            parts = url_guard.check_url(resource, "The resource")
            if not parts.path.rstrip("/").endswith(self._path) or parts.query:
                raise LocalError(f"The resource is the URL of the endpoint, and ends in {path}, unlike {resource!r}")
            self._base = canonical(resource).rstrip("/").removesuffix(self._path)
        self.places = frozenset({WELL_KNOWN + self._path, WELL_KNOWN} if self._rules.issuer else ())
        """The paths at which the metadata are."""

    async def admit(self, scope: Scope, headers: Headers, below: str) -> Visitor | Refusal:
        """Who sends a request, or why it is not served."""
        base = self._root(scope, headers)
        metadata = base + WELL_KNOWN + self._path if self.places else None
        scheme, _, token = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        scheme, token = scheme.lower(), token.strip()
        if scheme not in _SCHEMES or not token:
            return self._unauthorized(metadata, "dpop" if self._rules.dpop else "bearer", None)
        try:
            known = self._verify(token)
            who = await known if inspect.isawaitable(known) else known
            if isinstance(who, str):
                who = Principal(subject=who)
            if who is None:
                raise TokenRefused("The token is not accepted")
            await self._check_holder(who, scheme, token, scope.get("method", "GET"), base + below, headers)
        except TokenRefused as problem:
            logger.info("A token was refused: %s", problem)
            error = "invalid_dpop_proof" if isinstance(problem, _BadProof) else "invalid_token"
            return self._unauthorized(metadata, "dpop" if self._rules.dpop else scheme, error)
        except AuthorizationFailed as problem:
            logger.error("Tokens cannot be checked now: %s", problem)
            wait = ((b"retry-after", b"30"),)
            return Refusal(503, INTERNAL_ERROR, "Tokens cannot be checked now; try again later", headers=wait)
        allowed = scopes.implied(who.scopes, self._rules.implies)
        until = None if who.expires_at is None else who.expires_at + LEEWAY
        visitor = Visitor(who.name_to(self._rules.issuer), allowed, _SCHEMES[scheme], metadata, until)
        return visitor if allowed.issuperset(self._rules.scopes) else visitor.lacks(self._rules.scopes)

    def document(self, scope: Scope, headers: Headers) -> bytes:
        """What the server says of itself (RFC 9728, section 2)."""
        rules, here = self._rules, self._root(scope, headers) + self._path
        resource = self._resource or next((one for one in rules.audience if covers(one, here)), here)
        return write_protected(
            ProtectedResource(
                resource=resource,
                authorization_servers=(rules.issuer,) if rules.issuer else (),
                scopes_supported=rules.scopes or None,
                dpop_bound_access_tokens_required=rules.dpop,
                dpop_signing_alg_values_supported=tuple(ALGORITHMS) if rules.dpop else (),
            )
        )

    async def close(self) -> None:
        """Let go of what was opened to remember proofs."""
        await self._proofs.close()

    async def _check_holder(
        self, who: Principal, scheme: str, token: str, method: str, url: str, headers: Headers
    ) -> None:
        """Whoever shows a token that is bound to a key shows the key too."""
        if self._rules.dpop and who.thumbprint is None:
            raise TokenRefused("The token is not bound to a key")
        proof = None
        if scheme == "dpop":
            shown = headers.get(b"dpop", b"").decode("latin-1")
            try:
                proof = dpop.verify(shown, method, url, now=time.time(), token=token, thumbprint=who.thumbprint)
            except TokenRefused as problem:
                raise _BadProof(str(problem)) from None
        check_binding(who, scheme, proof)
        if proof is not None:
            try:
                await self._proofs.take(proof)
            except TokenRefused as problem:
                raise _BadProof(str(problem)) from None

    def _unauthorized(self, metadata: str | None, scheme: str, error: str | None) -> Refusal:
        told = challenge.write(
            _SCHEMES[scheme],
            error=error,
            scope=self._rules.scopes,
            algs=ALGORITHMS if scheme == "dpop" else (),
            resource_metadata=metadata,
        )
        return Refusal(401, INVALID_REQUEST, "Unauthorized: a valid token is needed", headers=_header(told))

    def _root(self, scope: Scope, headers: Headers) -> str:
        """The URL that the application is at: the one it was told, or what the request says, whose host was checked."""
        if self._base is not None:
            return self._base
        scheme = scope.get("scheme", "http")
        host = headers.get(b"host", b"").decode("latin-1")
        if not _HOST.fullmatch(host):
            host = "localhost"  # where every host may be named, also one that no URL can hold
        return f"{_WEB.get(scheme, scheme)}://{host}{scope.get('root_path', '')}"


class _BadProof(TokenRefused):
    """The token may be good, its proof is not."""


def _header(told: str) -> tuple[tuple[bytes, bytes], ...]:
    return ((b"www-authenticate", told.encode()),)
