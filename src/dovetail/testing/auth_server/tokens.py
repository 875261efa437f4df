"""Tokens: signed ones for access, and others that are good for one renewal.

RFC 9068; RFC 6749, section 6; RFC 9700, section 4.14.2: when a refresh token comes a second time, all that came of the
same login ends, for one of the two who had it is a thief. RFC 7009; RFC 7662.
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

from .errors import Problem
from .expiring_map import Shelf

REFRESH_SECONDS = 30 * 86400.0


class Right(msgspec.Struct, frozen=True, kw_only=True):
    """What tokens allow: to whom, at which server, and on whose behalf."""

    subject: str
    client_id: str
    resource: str
    scopes: tuple[str, ...]
    jkt: str | None = None
    """The key that they are bound to."""


class _Refresh(msgspec.Struct, frozen=True):
    family: str
    used: bool = False


class Mint:
    """Makes tokens and remembers them: all that come of one login are a family, and end together."""

    def __init__(self, random: Random, key: SigningKey) -> None:
        self.key = key
        self._random = random
        self._families: Shelf[Right] = Shelf(REFRESH_SECONDS)
        self._refresh: Shelf[_Refresh] = Shelf(REFRESH_SECONDS, 100_000)
        self._access: Shelf[str] = Shelf(REFRESH_SECONDS, 100_000)

    def new_name(self) -> str:
        """A name that nobody can guess."""
        return encode64(self._random(16))

    def begin(self, family: str, right: Right, now: float) -> None:
        """A login has given this right."""
        self._families.put(family, right, now)

    def access(self, issuer: str, family: str, right: Right, now: float, seconds: float) -> str:
        """A signed token (RFC 9068, section 2)."""
        jti = self.new_name()
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
        """A token for the next renewal."""
        token = encode64(self._random(32))
        self._refresh.put(_digest(token), _Refresh(family), now)
        return token

    def renew(self, token: str, client_id: str, now: float) -> tuple[str, Right]:
        """The family and the right of a refresh token, which is then used up."""
        name = _digest(token)
        found = self._refresh.get(name, now)
        right = None if found is None else self._families.get(found.family, now)
        if found is None or right is None:
            raise Problem("invalid_grant", "The refresh token is not known, too old, or was revoked")
        if right.client_id != client_id:
            raise Problem("invalid_grant", "The refresh token is for another client")
        if found.used:
            self.revoke_family(found.family)
            raise Problem("invalid_grant", "The refresh token was used before: all tokens of this login are revoked")
        self._refresh.change(name, _Refresh(found.family, used=True))
        return found.family, right

    def revoke(self, token: str, client_id: str, issuer: str, now: float) -> None:
        """End a token, and with a refresh token the whole login; one that is not known is none already."""
        found = self._refresh.get(_digest(token), now)
        if found is not None:
            right = self._families.get(found.family, now)
            if right is not None and right.client_id != client_id:
                raise Problem("invalid_grant", "The token is for another client")
            self.revoke_family(found.family)
            return
        claims = self.look_up(token, issuer, now)
        if claims is not None:
            if claims["client_id"] != client_id:
                raise Problem("invalid_grant", "The token is for another client")
            self._access.take(claims["jti"], now)

    def look_up(self, token: str, issuer: str, now: float) -> dict[str, Any] | None:
        """The claims of an access token that is good now; no leeway for one's own clock."""
        try:
            claims = jwt.verify(token, [self.key.public], typ=("at+jwt",))
            jwt.check_times(claims, now, 0.0)
        except TokenRefused:
            return None
        alive = claims.get("iss") == issuer and self._access.get(str(claims.get("jti")), now) is not None
        return claims if alive else None

    def revoke_family(self, family: str) -> None:
        """End all that came of one login."""
        self._families.take(family, 0.0)
        for jti, one in self._access:
            if one == family:
                self._access.take(jti, 0.0)

    def expire_access(self) -> None:
        """End all access tokens; logins go on."""
        self._access.clear()

    def revoke_all(self) -> None:
        """End everything."""
        self._access.clear()
        self._families.clear()


def _digest(token: str) -> str:
    return sha256(token.encode(errors="surrogatepass")).hexdigest()
