"""Access tokens, which are signed, and single-use refresh tokens.

RFC 9068; RFC 6749, section 6; RFC 9700, section 4.14.2: when a refresh token is used a second time, all tokens of the
login are revoked, because one of the two users is an attacker. RFC 7009; RFC 7662.
"""

from __future__ import annotations

from hashlib import sha256
from math import ceil
from typing import Any

import msgspec

from dovetail.auth import jwt
from dovetail.auth.errors import TokenRefused
from dovetail.auth.http import Random
from dovetail.auth.jwk import SigningKey, encode64

from .errors import RequestError
from .expiring_map import ExpiringMap

REFRESH_SECONDS = 30 * 86400.0


class AccessRight(msgspec.Struct, frozen=True, kw_only=True):
    """The access that tokens grant: client, resource, subject and scopes."""

    subject: str
    client_id: str
    resource: str
    scopes: tuple[str, ...]
    jkt: str | None = None
    """Thumbprint of the DPoP key."""


class _Refresh(msgspec.Struct, frozen=True):
    family: str
    used: bool = False


class TokenIssuer:
    """Issues and revokes tokens; all tokens of one login are a family and are revoked together."""

    def __init__(self, random: Random, key: SigningKey) -> None:
        self.key = key
        self._random = random
        self._families: ExpiringMap[AccessRight] = ExpiringMap(REFRESH_SECONDS)
        self._refresh: ExpiringMap[_Refresh] = ExpiringMap(REFRESH_SECONDS, 100_000)
        self._access: ExpiringMap[str] = ExpiringMap(REFRESH_SECONDS, 100_000)

    def new_id(self) -> str:
        """A random id."""
        return encode64(self._random(16))

    def begin(self, family: str, right: AccessRight, now: float) -> None:
        """Start a token family."""
        self._families.put(family, right, now)

    def access(self, issuer: str, family: str, right: AccessRight, now: float, seconds: float) -> str:
        """A signed token (RFC 9068, section 2)."""
        jti = self.new_id()
        self._access.put(jti, family, now)
        claims: dict[str, Any] = {
            "iss": issuer,
            "sub": right.subject,
            "aud": right.resource,
            "client_id": right.client_id,
            "scope": " ".join(right.scopes),
            "iat": int(now),
            "exp": ceil(now + seconds),
            "jti": jti,
        }
        if right.jkt is not None:
            claims["cnf"] = {"jkt": right.jkt}
        return jwt.sign(claims, self.key, "at+jwt")

    def refresh_token(self, family: str, now: float) -> str:
        """Issue a refresh token."""
        token = encode64(self._random(32))
        self._refresh.put(_digest(token), _Refresh(family), now)
        return token

    def renew(self, token: str, client_id: str, now: float) -> tuple[str, AccessRight]:
        """Use a refresh token; returns its family and right."""
        name = _digest(token)
        entry = self._refresh.get(name, now)
        right = None if entry is None else self._families.get(entry.family, now)
        if entry is None or right is None:
            raise RequestError("invalid_grant", "The refresh token is unknown, expired or revoked")
        if right.client_id != client_id:
            raise RequestError("invalid_grant", "The refresh token is for another client")
        if entry.used:
            self.revoke_family(entry.family)
            raise RequestError(
                "invalid_grant", "The refresh token was used before: all tokens of this login are revoked"
            )
        self._refresh.change(name, _Refresh(entry.family, used=True))
        return entry.family, right

    def revoke(self, token: str, client_id: str, issuer: str, now: float) -> None:
        """Revoke a token; a refresh token revokes its whole family. Unknown tokens are ignored."""
        entry = self._refresh.get(_digest(token), now)
        if entry is not None:
            right = self._families.get(entry.family, now)
            if right is not None and right.client_id != client_id:
                raise RequestError("invalid_grant", "The token is for another client")
            self.revoke_family(entry.family)
            return
        claims = self.look_up(token, issuer, now)
        if claims is not None:
            if claims["client_id"] != client_id:
                raise RequestError("invalid_grant", "The token is for another client")
            self._access.pop(claims["jti"], now)

    def look_up(self, token: str, issuer: str, now: float) -> dict[str, Any] | None:
        """The claims of a valid access token; without leeway, as the clock is our own."""
        try:
            claims = jwt.verify(token, [self.key.public], typ=("at+jwt",))
            jwt.check_times(claims, now, 0.0)
        except TokenRefused:
            return None
        alive = claims.get("iss") == issuer and self._access.get(str(claims.get("jti")), now) is not None
        return claims if alive else None

    def revoke_family(self, family: str) -> None:
        """Revoke all tokens of a family."""
        self._families.pop(family, 0.0)
        for jti, one in self._access:
            if one == family:
                self._access.pop(jti, 0.0)

    def expire_access(self) -> None:
        """Expire all access tokens, but no refresh tokens."""
        self._access.clear()

    def revoke_all(self) -> None:
        """Revoke all tokens."""
        self._access.clear()
        self._families.clear()


def _digest(token: str) -> str:
    return sha256(token.encode(errors="surrogatepass")).hexdigest()
