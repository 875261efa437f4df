"""Authorization codes: single-use, and only for the client that started the login.

RFC 6749, sections 4.1.2 and 4.1.3; RFC 7636, section 4.6.
"""

from __future__ import annotations

from hmac import compare_digest

import msgspec

from dovetail.auth.authorization_code import pkce_challenge
from dovetail.auth.http import Random
from dovetail.auth.jwk import encode64

from .authorize_request import UserAuthorization
from .clients import KnownClient
from .errors import RequestError, required_field
from .expiring_map import ExpiringMap

CODE_SECONDS = 60.0


class ApprovedAuthorization(msgspec.Struct, frozen=True):
    """An authorization approved by a user."""

    authorization: UserAuthorization
    user: str
    scopes: tuple[str, ...]


class _Code(msgspec.Struct, frozen=True):
    allowed: ApprovedAuthorization
    family: str | None = None
    """The token family that was issued for the code; None if it is unused."""


class CodeReused(RequestError):
    """A code was used twice, so it may be stolen: tokens issued for it must be revoked."""

    def __init__(self, family: str) -> None:
        super().__init__("invalid_grant", "The code was used before")
        self.family = family


class Codes:
    """Codes that have not expired."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._kept: ExpiringMap[_Code] = ExpiringMap(CODE_SECONDS)

    def new(self, allowed: ApprovedAuthorization, now: float) -> str:
        """Issue a code."""
        code = encode64(self._random(24))
        self._kept.put(code, _Code(allowed), now)
        return code

    def redeem(self, fields: dict[str, str], client: KnownClient, family: str, now: float) -> ApprovedAuthorization:
        """Redeem a code; `family` is the token family that will be issued for it."""
        code = required_field(fields, "code")
        issued = self._kept.get(code, now)
        if issued is None:
            raise RequestError("invalid_grant", "The code is unknown or expired")
        if issued.family is not None:
            raise CodeReused(issued.family)
        authorization = issued.allowed.authorization
        if authorization.client.id != client.id:
            raise RequestError("invalid_grant", "The code is for another client")
        if fields.get("redirect_uri") != (authorization.redirect_uri if authorization.redirect_named else None):
            raise RequestError("invalid_grant", "The redirect_uri differs from that of the authorization request")
        verifier = fields.get("code_verifier", "")
        if not verifier.isascii() or not compare_digest(pkce_challenge(verifier), authorization.challenge):
            raise RequestError("invalid_grant", "The code_verifier does not match")
        self._kept.change(code, _Code(issued.allowed, family))
        return issued.allowed

    def clear(self) -> None:
        """Delete all codes."""
        self._kept.clear()
