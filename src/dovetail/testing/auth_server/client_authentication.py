"""How a client proves who it is: not at all, with a secret, or with a signature.

RFC 6749, section 2.3; RFC 7523, sections 2.2 and 3; OAuth 2.1 lets no client prove it in two ways at once.
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
from .errors import Problem
from .expiring_map import Shelf

ASSERTION_SECONDS = 600.0
"""How long an assertion may live; it is remembered for as long, and used once."""


class Shown(msgspec.Struct, frozen=True):
    """What a request shows of its client, and in which way."""

    client_id: str
    method: str
    proof: str = ""

    def __repr__(self) -> str:
        return f"Shown({self.client_id!r}, {self.method!r})"


def read_shown(authorization: str, fields: dict[str, str]) -> Shown:
    """Who a request says it is from."""
    ways: list[Shown] = []
    named = fields.get("client_id")
    if authorization:
        ways.append(_basic(authorization))
    if "client_secret" in fields:
        ways.append(Shown(named or "", "client_secret_post", fields["client_secret"]))
    if "client_assertion" in fields:
        ways.append(_assertion(fields))
    if not ways and named:
        ways.append(Shown(named, PUBLIC))
    if len(ways) != 1 or not ways[0].client_id or named not in (None, ways[0].client_id):
        raise Problem("invalid_client", "The request does not say, in one way, which client it is from", 401)
    return ways[0]


def check_shown(
    shown: Shown, client: KnownClient | None, *, audience: Collection[str], used: Shelf[bool], now: float
) -> KnownClient:
    """The client, if it has proved who it is in the way that it is known for."""
    if client is None:
        raise Problem("invalid_client", "The client is not known here: register it again", 401)
    known = client.method
    if known.startswith("client_secret") and shown.method.startswith("client_secret"):
        known = shown.method  # with the secret in the header or in the form: both are the same proof
    if shown.method != known:
        raise Problem("invalid_client", f"This client proves who it is with {client.method}", 401)
    if client.secret is not None and not compare_digest(shown.proof.encode(errors="replace"), client.secret.encode()):
        raise Problem("invalid_client", "The secret is wrong", 401)
    if client.method == "private_key_jwt":
        _check_assertion(shown.proof, client, audience, used, now)
    return client


def _basic(authorization: str) -> Shown:
    scheme, _, content = authorization.partition(" ")
    try:
        pair = b64decode(content.strip(), validate=True).decode() if scheme.lower() == "basic" else ""
    except (Base64Error, ValueError):
        pair = ""
    name, colon, secret = pair.partition(":")
    if not colon:
        raise Problem("invalid_client", "The header Authorization is not that of a client", 401)
    return Shown(unquote_plus(name), "client_secret_basic", unquote_plus(secret))


def _assertion(fields: dict[str, str]) -> Shown:
    proof = fields["client_assertion"]
    if fields.get("client_assertion_type") != ASSERTION:
        raise Problem("invalid_client", "The client_assertion is of a type that is not known here", 401)
    try:
        subject = jwt.parse_unverified(proof).claims.get("sub")
    except TokenRefused as problem:
        raise Problem("invalid_client", str(problem), 401) from None
    return Shown(subject if isinstance(subject, str) else "", "private_key_jwt", proof)


def _check_assertion(proof: str, client: KnownClient, audience: Collection[str], used: Shelf[bool], now: float) -> None:
    assert client.key is not None
    try:
        claims = jwt.verify(proof, [client.key])
        jwt.check_claims(claims, now=now, issuer=client.id, audience=audience)
        until = jwt.time_claim(claims, "exp") or 0.0
    except TokenRefused as problem:
        raise Problem("invalid_client", str(problem), 401) from None
    jti = claims.get("jti")
    if claims.get("sub") != client.id or not isinstance(jti, str) or until > now + ASSERTION_SECONDS - jwt.LEEWAY:
        raise Problem("invalid_client", "The assertion is not one of a client for itself, with an identifier", 401)
    if used.get(f"{client.id} {jti}", now) is not None:
        raise Problem("invalid_client", "The assertion was used before", 401)
    used.put(f"{client.id} {jti}", True, now)
