"""JSON Web Tokens: signing, verification, checks of claims.

RFC 7515 (compact form), RFC 7519 and RFC 8725. The algorithm is the one of the key; a token that names another, none,
or one with a shared secret, is refused. No URL in a token is ever fetched.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, cast

import msgspec

from .errors import TokenRefused, UnknownKey
from .jwk import ALGORITHMS, PublicKey, SigningKey, decode64, encode64

MAX_TOKEN = 16 * 1024
LEEWAY = 60.0
"""Allowed difference between two clocks, in seconds."""

_JSON = msgspec.json.Decoder(dict[str, Any])


class UnverifiedToken(msgspec.Struct, frozen=True):
    """A parsed token whose signature has not been verified."""

    header: dict[str, Any]
    claims: dict[str, Any]
    signed: bytes
    signature: bytes


def sign(claims: dict[str, Any], key: SigningKey, typ: str = "JWT", header: dict[str, Any] | None = None) -> str:
    """Sign a token; its header names the key, unless `header` is given, which may contain the whole key."""
    key_header = header or ({"kid": key.kid} if key.kid else {})
    head = {"alg": key.alg, "typ": typ, **key_header}
    content = f"{encode64(msgspec.json.encode(head))}.{encode64(msgspec.json.encode(claims))}"
    return f"{content}.{encode64(key.sign(content.encode()))}"


def parse_unverified(token: str) -> UnverifiedToken:
    """Parse a token without verifying it."""
    pieces = token.split(".", 3) if len(token) <= MAX_TOKEN else []
    if len(pieces) != 3:
        raise TokenRefused("Not a signed token in compact form")
    try:
        header, claims = (_JSON.decode(decode64(piece)) for piece in pieces[:2])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise TokenRefused("The header or the claims of the token are no JSON object") from None
    return UnverifiedToken(header, claims, token.rpartition(".")[0].encode(), decode64(pieces[2]))


def verify(
    token: str,
    keys: Iterable[PublicKey],
    *,
    typ: Collection[str] | None = None,
    algorithms: Collection[str] = ALGORITHMS,
) -> dict[str, Any]:
    """Verify the signature of a token and return its claims; issuer, audience and times are still to be checked.

    `typ` are the types to accept, in lower case and without `application/`; None accepts all.
    """
    parts = parse_unverified(token)
    check_header(parts.header, typ, algorithms)
    kid = parts.header.get("kid")
    candidates = [key for key in keys if key.alg == parts.header["alg"] and kid in (None, key.kid)]
    if not candidates:
        raise UnknownKey("The token is signed with a key that is not known")
    if not any(key.verify(parts.signed, parts.signature) for key in candidates):
        raise TokenRefused("The signature of the token is not valid")
    return parts.claims


def check_header(header: dict[str, Any], typ: Collection[str] | None, algorithms: Collection[str]) -> None:
    """Refuse a header with another algorithm or type, or with an unknown extension."""
    alg, kind = header.get("alg"), header.get("typ")
    if alg not in algorithms or alg not in ALGORITHMS:
        raise TokenRefused("The token is signed with an algorithm that is not accepted")
    if "crit" in header or "b64" in header:
        raise TokenRefused("The token needs an extension that is not known")  # RFC 7515, section 4.1.11
    if not isinstance(header.get("kid", ""), str):
        raise TokenRefused("The key identifier of the token is not a string")
    if typ is not None:
        named = kind.lower().removeprefix("application/") if isinstance(kind, str) else ""
        if named not in typ:
            raise TokenRefused("The token is of another type")  # RFC 8725, section 3.11


def check_claims(
    claims: dict[str, Any],
    *,
    now: float,
    issuer: str,
    audience: Collection[str],
    leeway: float = LEEWAY,
) -> None:
    """Refuse a token of another issuer, for another audience, or outside its lifetime; the claims are required."""
    if claims.get("iss") != issuer:
        raise TokenRefused("The token is of another issuer")
    named = audiences(claims)
    if not named.intersection(audience):
        raise TokenRefused("The token is for another audience")
    check_times(claims, now, leeway)


def check_times(claims: dict[str, Any], now: float, leeway: float = LEEWAY) -> None:
    """Refuse a token that has expired or is not valid yet; its expiry is required."""
    expires = time_claim(claims, "exp")
    if expires is None or now >= expires + leeway:
        raise TokenRefused("The token has expired, or does not say when it will")
    for name in ("nbf", "iat"):
        begins = time_claim(claims, name)
        if begins is not None and now < begins - leeway:
            raise TokenRefused("The token is not valid yet")


def time_claim(claims: dict[str, Any], name: str) -> float | None:
    """The time in a claim, or None if it is absent."""
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
        raise TokenRefused(f"The {name} of the token is not a time")
    return value


def audiences(claims: dict[str, Any]) -> frozenset[str]:
    """The audiences of a token."""
    value: Any = claims.get("aud")
    values = cast("list[Any]", value) if isinstance(value, list) else [value]
    return frozenset(each for each in values if isinstance(each, str))
