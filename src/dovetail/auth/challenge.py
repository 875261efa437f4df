"""What a server says in `WWW-Authenticate`: which credentials it wants, and where to learn how to get them.

RFC 9110, section 11.6.1, with RFC 6750, section 3, RFC 9728, section 5.1 and RFC 9449, section 7.1.
The reader takes time in proportion to the text, whatever stands in it.
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
_UNSAYABLE = re.compile(r"[^\x20-\x21\x23-\x5b\x5d-\x7e]")


class Challenge(msgspec.Struct, frozen=True):
    """One challenge: a scheme in lower case and its parameters, whose names are in lower case too."""

    scheme: str
    parameters: dict[str, str] = {}
    token: str | None = None
    """The one value of a scheme that has no parameters, such as Negotiate."""

    @property
    def resource_metadata(self) -> str | None:
        """Where the metadata of the protected resource are."""
        return self.parameters.get("resource_metadata") or None

    @property
    def scopes(self) -> tuple[str, ...]:
        """What a token must allow for this request."""
        return scopes.split(self.parameters.get("scope", ""))

    @property
    def error(self) -> str | None:
        """Why a token was refused; none where there was no token."""
        return self.parameters.get("error")

    @property
    def error_description(self) -> str | None:
        """The same for people."""
        return self.parameters.get("error_description")

    @property
    def insufficient_scope(self) -> bool:
        """Whether another token, with more scopes, would do."""
        return self.error == "insufficient_scope"


NOTHING = Challenge("")


def parse(text: str) -> tuple[Challenge, ...]:
    """All challenges of a header, or of several joined by commas; from where it cannot be read, it is ignored.

    Blanks do for commas, and a value without quotes may have any letter but these: servers write such headers.
    Of a parameter that comes twice, the first counts.
    """
    if len(text) > MAX_TEXT:
        return ()
    found: list[tuple[str, dict[str, str], str | None]] = []
    at = _skip(_GAP, text, 0)
    while at < len(text) and len(found) <= MAX_CHALLENGES:
        word = _TOKEN.match(text, at)
        if word is None:
            break
        equals = _EQUALS.match(text, word.end())
        if equals is not None and found:
            value, at = _value(text, equals.end())
            if value is None:
                break
            parameters = found[-1][1]
            if len(parameters) < MAX_PARAMETERS:
                parameters.setdefault(word[0].lower(), value)
        else:
            token = _TOKEN68.match(text, _skip_blanks(text, word.end())) if _blank(text, word.end()) else None
            found.append((word[0].lower(), {}, token[0] if token else None))
            at = token.end() if token else word.end()
        at = _skip(_GAP, text, at)
    return tuple(Challenge(*each) for each in found[:MAX_CHALLENGES])


def read(headers: Mapping[str, str]) -> Challenge:
    """The challenge that a token answers; what only one of Bearer and DPoP says counts for both.

    Its scheme is `bearer` where a plain token will do, `dpop` where it will not, and empty where neither is asked for.
    """
    known = {each.scheme: each.parameters for each in reversed(parse(headers.get("www-authenticate", "")))}
    bearer, dpop = known.get("bearer"), known.get("dpop")
    if bearer is None and dpop is None:
        return NOTHING
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
    """A challenge for a header; a description loses the letters that RFC 6750, section 3 forbids."""
    pairs = {
        "realm": realm,
        "error": error,
        "error_description": _UNSAYABLE.sub(" ", error_description) if error_description else None,
        "scope": " ".join(scopes.checked(scope)),
        "algs": " ".join(algs),
        "resource_metadata": resource_metadata,
    }
    for name, value in pairs.items():
        if value and _UNSAYABLE.search(value):
            raise LocalError(f"The {name} of a challenge has letters that cannot be sent: {value!r}")
    told = ", ".join(f'{name}="{value}"' for name, value in pairs.items() if value)
    return f"{scheme} {told}" if told else scheme


def _value(text: str, at: int) -> tuple[str | None, int]:
    if not text.startswith('"', at):
        bare = _BARE.match(text, at)
        return (bare[0], bare.end()) if bare else ("", at)
    pieces: list[str] = []
    at += 1
    while at < len(text):
        letter = text[at]
        if letter == '"':
            return "".join(pieces), at + 1
        if letter == "\\":
            at += 1
            letter = text[at : at + 1]
        pieces.append(letter)
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
