"""Client authentication: none, with a secret, or with a signed assertion.

RFC 6749, section 2.3; RFC 7523, sections 2.2 and 3; OAuth 2.1 lets no client prove it in two candidates at once.
"""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Collection
from hmac import compare_digest
from urllib.parse import unquote_plus

import msgspec

from dovetail.auth import jwt
from dovetail.auth.client_authentication import ASSERTION
from dovetail.auth.errors import TokenRefused

from .clients import PUBLIC, KnownClient
from .errors import RequestError
from .expiring_map import ExpiringMap

ASSERTION_SECONDS = 600.0
"""Maximum lifetime of an assertion, for which it is remembered as used."""


class PresentedCredentials(msgspec.Struct, frozen=True):
    """Credentials of a client in a request, and their method."""

    client_id: str
    method: str
    proof: str = ""

    def __repr__(self) -> str:
        return f"Shown({self.client_id!r}, {self.method!r})"


def parse_credentials(authorization: str, fields: dict[str, str]) -> PresentedCredentials:
    """Parse the credentials of a request."""
    candidates: list[PresentedCredentials] = []
    named = fields.get("client_id")
    if authorization:
        candidates.append(_basic(authorization))
    if "client_secret" in fields:
        candidates.append(PresentedCredentials(named or "", "client_secret_post", fields["client_secret"]))
    if "client_assertion" in fields:
        candidates.append(_assertion(fields))
    if not candidates and named:
        candidates.append(PresentedCredentials(named, PUBLIC))
    if len(candidates) != 1 or not candidates[0].client_id or named not in (None, candidates[0].client_id):
        raise RequestError("invalid_client", "The request must identify its client in exactly one way", 401)
    return candidates[0]


def verify_credentials(
    presented: PresentedCredentials,
    client: KnownClient | None,
    *,
    audience: Collection[str],
    used: ExpiringMap[bool],
    now: float,
) -> KnownClient:
    """Authenticate the client by the method that it is registered for."""
    if client is None:
        raise RequestError("invalid_client", "The client is unknown: register it again", 401)
    known = client.method
    if known.startswith("client_secret") and presented.method.startswith("client_secret"):
        known = presented.method  # the secret may be in the header or in the form
    if presented.method != known:
        raise RequestError("invalid_client", f"This client must authenticate with {client.method}", 401)
    if client.secret is not None and not compare_digest(
        presented.proof.encode(errors="replace"), client.secret.encode()
    ):
        raise RequestError("invalid_client", "The secret is wrong", 401)
    if client.method == "private_key_jwt":
        _check_assertion(presented.proof, client, audience, used, now)
    return client


def _basic(authorization: str) -> PresentedCredentials:
    scheme, _, content = authorization.partition(" ")
    try:
        pair = b64decode(content.strip(), validate=True).decode() if scheme.lower() == "basic" else ""
    except (Base64Error, ValueError):
        pair = ""
    name, colon, secret = pair.partition(":")
    if not colon:
        raise RequestError("invalid_client", "The Authorization header is invalid", 401)
    return PresentedCredentials(unquote_plus(name), "client_secret_basic", unquote_plus(secret))


def _assertion(fields: dict[str, str]) -> PresentedCredentials:
    proof = fields["client_assertion"]
    if fields.get("client_assertion_type") != ASSERTION:
        raise RequestError("invalid_client", "The client_assertion_type is not supported", 401)
    try:
        subject = jwt.parse_unverified(proof).claims.get("sub")
    except TokenRefused as problem:
        raise RequestError("invalid_client", str(problem), 401) from None
    return PresentedCredentials(subject if isinstance(subject, str) else "", "private_key_jwt", proof)


def _check_assertion(
    proof: str, client: KnownClient, audience: Collection[str], used: ExpiringMap[bool], now: float
) -> None:
    assert client.key is not None
    try:
        claims = jwt.verify(proof, [client.key])
        jwt.check_claims(claims, now=now, issuer=client.id, audience=audience)
        until = jwt.time_claim(claims, "exp") or 0.0
    except TokenRefused as problem:
        raise RequestError("invalid_client", str(problem), 401) from None
    jti = claims.get("jti")
    if claims.get("sub") != client.id or not isinstance(jti, str) or until > now + ASSERTION_SECONDS - jwt.LEEWAY:
        raise RequestError("invalid_client", "The assertion needs sub equal to the client id, and a jti", 401)
    if used.get(f"{client.id} {jti}", now) is not None:
        raise RequestError("invalid_client", "The assertion was used before", 401)
    used.put(f"{client.id} {jti}", True, now)
