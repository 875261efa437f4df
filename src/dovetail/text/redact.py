"""Redaction of secrets in JSON values and texts, by field names and by the format of common secrets.

It knows common formats, not all of them: secrets should not be logged in the first place (logging, "Security").
"""

from __future__ import annotations

import functools
import re
from itertools import pairwise
from typing import Any, cast

REDACTED = "[redacted]"
MAX_DEPTH = 32

_NAMES = frozenset(
    {
        *("password", "passwd", "passphrase", "passcode", "pwd", "pin", "otp"),
        *("secret", "token", "apikey", "credential", "credentials", "signature"),
        *("authorization", "bearer", "cookie"),
    }
)
_PAIRS = frozenset({("api", "key"), ("private", "key"), ("access", "key"), ("secret", "key"), ("session", "id")})
_OPTION = re.compile(r"--?[A-Za-z][\w-]{0,60}")
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")

# A prefix may precede such a name, as in DB_PASSWORD.
_NAMED = r"(?:password|passwd|pwd|passphrase|secret|token|authorization|cookie|(?:api|access|private|secret)[_-]?key)"
_STATED = rf"{_NAMED}[\"']?\s{{0,3}}[=:]\s{{0,3}}"

_PATTERNS = (
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----[^-]*(?:-----END [A-Z ]*PRIVATE KEY-----)?"), REDACTED),
    (re.compile(r"\b(bearer|basic|token)(\s+)[A-Za-z0-9._~+/=-]{12,}", re.IGNORECASE), rf"\1\2{REDACTED}"),
    (re.compile(r"\beyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]{6,}(?:\.[A-Za-z0-9_-]*)?"), REDACTED),
    (re.compile(r"\b(?:sk|pk|rk)[-_][A-Za-z0-9_-]{16,}|\bgh[pousr]_[A-Za-z0-9]{16,}"), REDACTED),
    (re.compile(r"\bgithub_pat_\w{20,}|\bglpat-[\w-]{16,}|\bxox[abprs]-[\w-]{10,}"), REDACTED),
    (re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b|\bAIza[\w-]{30,}"), REDACTED),
    (re.compile(r"(://[^\s/:@]*:)[^\s/@]+(@)"), rf"\1{REDACTED}\2"),
    (re.compile(r"([?&](?:key|sig|auth|jwt|code)=)[^\s&#]+", re.IGNORECASE), rf"\1{REDACTED}"),
    (re.compile(rf"(--?[\w-]{{0,40}}{_NAMED}\s{{1,3}})[^\s-]\S*", re.IGNORECASE), rf"\1{REDACTED}"),
    (re.compile(rf"({_STATED}([\"']))(?:(?!\2)[^\n])+", re.IGNORECASE), rf"\1{REDACTED}"),
    (re.compile(rf"({_STATED}[\"']?)[^\s\"'&,;}}]+", re.IGNORECASE), rf"\1{REDACTED}"),
)

_HINT_WORDS = (
    *("private key", "bearer", "basic", "token", "eyj", "sk-", "sk_", "pk-", "pk_", "rk-", "rk_", "ghp_", "gho_"),
    *("ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "xox", "akia", "asia", "aiza", "://", "?", "&", "pass", "pwd"),
    *("secret", "key", "authorization", "cookie"),
)
_HINT = re.compile("|".join(map(re.escape, _HINT_WORDS)))
"""Each pattern contains one of these in lower case. Most texts contain none, and need no further search."""


def redact(value: Any) -> Any:
    """A copy of a JSON value with its secrets replaced by `REDACTED`."""
    return _redact(value, 0)


def redact_text(text: str) -> str:
    """The text with everything that looks like a secret replaced by `REDACTED`."""
    if _HINT.search(text.lower()) is None:
        return text
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return text


@functools.lru_cache(maxsize=1024)
def is_secret(name: str) -> bool:
    """True if a field of this name is assumed to hold a secret."""
    words = [word.lower() for word in _WORD.findall(name[:200])]
    if any(pair in _PAIRS for pair in pairwise(words)):
        return True
    return bool(words) and (words[-1] in _NAMES or (words[0] in _NAMES and words[-1] in ("value", "header", "text")))


def is_secret_option(word: object) -> bool:
    """True for a command-line option, such as `--token`, whose value is a secret."""
    return isinstance(word, str) and _OPTION.fullmatch(word) is not None and is_secret(word)


def _redact(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return redact_text(value)
    if depth >= MAX_DEPTH:
        return REDACTED if isinstance(value, (dict, list)) else value
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return {name: _field(name, inner, depth) for name, inner in fields.items()}
    if isinstance(value, list):
        items = cast("list[Any]", value)
        return [
            REDACTED
            if isinstance(item, str) and index and is_secret_option(items[index - 1])
            else _redact(item, depth + 1)
            for index, item in enumerate(items)
        ]
    return value


def _field(name: str, value: Any, depth: int) -> Any:
    if is_secret(name) and value is not None and not isinstance(value, bool):
        return REDACTED
    return _redact(value, depth + 1)
