"""`WWW-Authenticate` challenges: the credentials that a server requires, and where its metadata is.

RFC 9110, section 11.6.1, with RFC 6750, section 3, RFC 9728, section 5.1 and RFC 9449, section 7.1.
Parsing takes time linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import msgspec

from dovetail.protocol.errors import LocalError

from . import scopes

MAX_TEXT = 16 * 1024
MAX_CHALLENGES = 32
MAX_PARAMETERS = 64

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_TOKEN68 = re.compile(r"[A-Za-z0-9._~+/-]+=*(?=[ \t]*(?:,|\Z))")
_GAP = re.compile(r"[ \t,]*")
_EQUALS = re.compile(r"[ \t]*=[ \t]*")
_BARE = re.compile(r"[^\s,\"]+")
_FORBIDDEN = re.compile(r"[^\x20-\x21\x23-\x5b\x5d-\x7e]")


class Challenge(msgspec.Struct, frozen=True):
    """One challenge: scheme and parameter names are in lower case."""

    scheme: str
    parameters: dict[str, str] = {}
    token: str | None = None
    """The token68 value of a scheme without parameters, such as Negotiate."""

    @property
    def resource_metadata(self) -> str | None:
        """URL of the protected resource metadata."""
        return self.parameters.get("resource_metadata") or None

    @property
    def scopes(self) -> tuple[str, ...]:
        """The scopes that a token must have for this request."""
        return scopes.split(self.parameters.get("scope", ""))

    @property
    def error(self) -> str | None:
        """The error code of a refused token; None if there was no token."""
        return self.parameters.get("error")

    @property
    def error_description(self) -> str | None:
        """The reason for a refused token, as text."""
        return self.parameters.get("error_description")

    @property
    def insufficient_scope(self) -> bool:
        """The token is valid, but lacks scopes."""
        return self.error == "insufficient_scope"


NO_CHALLENGE = Challenge("")


def parse(text: str) -> tuple[Challenge, ...]:
    """Parse the challenges of a header, or of several joined by commas; text after a syntax error is ignored.

    Spaces are accepted instead of commas, and a value without quotes may have any other characters, because servers
    send such headers. The first of duplicate parameters counts.
    """
    if len(text) > MAX_TEXT:
        return ()
    challenges: list[tuple[str, dict[str, str], str | None]] = []
    at = _skip(_GAP, text, 0)
    while at < len(text) and len(challenges) <= MAX_CHALLENGES:
        word = _TOKEN.match(text, at)
        if word is None:
            break
        equals = _EQUALS.match(text, word.end())
        if equals is not None and challenges:
            value, at = _value(text, equals.end())
            if value is None:
                break
            parameters = challenges[-1][1]
            if len(parameters) < MAX_PARAMETERS:
                parameters.setdefault(word[0].lower(), value)
        else:
            token = _TOKEN68.match(text, _skip_blanks(text, word.end())) if _blank(text, word.end()) else None
            challenges.append((word[0].lower(), {}, token[0] if token else None))
            at = token.end() if token else word.end()
        at = _skip(_GAP, text, at)
    return tuple(Challenge(*each) for each in challenges[:MAX_CHALLENGES])


def read(headers: Mapping[str, str]) -> Challenge:
    """The challenge for a token; Bearer and DPoP challenges are merged, since their parameters hold for both.

    Its scheme is `bearer` if a bearer token is accepted, `dpop` if only a DPoP-bound one is, and empty if neither is
    asked for.
    """
    known = {each.scheme: each.parameters for each in reversed(parse(headers.get("www-authenticate", "")))}
    bearer, dpop = known.get("bearer"), known.get("dpop")
    if bearer is None and dpop is None:
        return NO_CHALLENGE
    return Challenge("dpop" if bearer is None else "bearer", {**(dpop or {}), **(bearer or {})})


def write(
    scheme: str = "Bearer",
    *,
    realm: str | None = None,
    resource_metadata: str | None = None,
    scope: Iterable[str] = (),
    error: str | None = None,
    error_description: str | None = None,
    algs: Iterable[str] = (),
) -> str:
    """Build a challenge; characters that RFC 6750, section 3 forbids become spaces in the description."""
    pairs = {
        "realm": realm,
        "error": error,
        "error_description": _FORBIDDEN.sub(" ", error_description) if error_description else None,
        "scope": " ".join(scopes.check_scopes(scope)),
        "algs": " ".join(algs),
        "resource_metadata": resource_metadata,
    }
    for name, value in pairs.items():
        if value and _FORBIDDEN.search(value):
            raise LocalError(f"The {name} of a challenge has characters that cannot be sent: {value!r}")
    parameters = ", ".join(f'{name}="{value}"' for name, value in pairs.items() if value)
    return f"{scheme} {parameters}" if parameters else scheme


def _value(text: str, at: int) -> tuple[str | None, int]:
    if not text.startswith('"', at):
        bare = _BARE.match(text, at)
        return (bare[0], bare.end()) if bare else ("", at)
    pieces: list[str] = []
    at += 1
    while at < len(text):
        character = text[at]
        if character == '"':
            return "".join(pieces), at + 1
        if character == "\\":
            at += 1
            character = text[at : at + 1]
        pieces.append(character)
        at += 1
    return None, at


def _skip(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return match.end() if match else at


def _blank(text: str, at: int) -> bool:
    return text[at : at + 1] in (" ", "\t")


def _skip_blanks(text: str, at: int) -> int:
    while _blank(text, at):
        at += 1
    return at
