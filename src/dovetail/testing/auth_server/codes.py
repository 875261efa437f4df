"""Codes: what a browser carries to the client, of use once and only to who began the login.

RFC 6749, sections 4.1.2 and 4.1.3; RFC 7636, section 4.6.
"""

from __future__ import annotations

from hmac import compare_digest

import msgspec

from dovetail.auth import pkce
from dovetail.auth.http import Random
from dovetail.auth.jwk import encode64

from .authorize_request import Asked
from .clients import KnownClient
from .errors import Problem, needed
from .expiring_map import Shelf

CODE_SECONDS = 60.0


class Allowed(msgspec.Struct, frozen=True):
    """What a user has agreed to."""

    asked: Asked
    user: str
    scopes: tuple[str, ...]


class _Code(msgspec.Struct, frozen=True):
    allowed: Allowed
    family: str | None = None
    """What was given for it already."""


class UsedTwice(Problem):
    """A code came again: somebody has a copy, and what was given for it is not safe."""

    def __init__(self, family: str) -> None:
        super().__init__("invalid_grant", "The code was used before")
        self.family = family


class Codes:
    """All codes that were given out a moment ago."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._kept: Shelf[_Code] = Shelf(CODE_SECONDS)

    def new(self, allowed: Allowed, now: float) -> str:
        """A code for what a user has agreed to."""
        code = encode64(self._random(24))
        self._kept.put(code, _Code(allowed), now)
        return code

    def redeem(self, fields: dict[str, str], client: KnownClient, family: str, now: float) -> Allowed:
        """What a code stands for; `family` is what will be given for it."""
        code = needed(fields, "code")
        found = self._kept.get(code, now)
        if found is None:
            raise Problem("invalid_grant", "The code is not known, or too old")
        if found.family is not None:
            raise UsedTwice(found.family)
        asked = found.allowed.asked
        if asked.client.id != client.id:
            raise Problem("invalid_grant", "The code is for another client")
        if fields.get("redirect_uri") != (asked.redirect_uri if asked.redirect_named else None):
            raise Problem("invalid_grant", "The redirect_uri is not that of the login")
        verifier = fields.get("code_verifier", "")
        if not verifier.isascii() or not compare_digest(pkce.challenge(verifier), asked.challenge):
            raise Problem("invalid_grant", "The code_verifier is not that of the login")
        self._kept.change(code, _Code(found.allowed, family))
        return found.allowed

    def clear(self) -> None:
        """Forget all."""
        self._kept.clear()
