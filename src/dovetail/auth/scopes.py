"""Scope selection: the scopes that the server requires, and never fewer than requested before.

2026-07-28 authorization, "Scope Selection Strategy", "Step-Up Authorization Flow" and "Refresh Tokens".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from dovetail.protocol.errors import LocalError

MAX_SCOPES = 256
OFFLINE = "offline_access"

_TOKEN = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,512}")


def split(text: str) -> tuple[str, ...]:
    """The scopes of a peer's parameter, without duplicates; invalid ones (RFC 6749, section 3.3) are left out."""
    return valid_scopes(text.split(" "))


def valid_scopes(scopes: Iterable[str]) -> tuple[str, ...]:
    """The valid scopes, without duplicates, in their order."""
    valid = dict.fromkeys(scope for scope in scopes if _TOKEN.fullmatch(scope))
    return tuple(valid)[:MAX_SCOPES]


def check_scopes(scopes: Iterable[str]) -> tuple[str, ...]:
    """The scopes without duplicates; raises LocalError for an invalid one."""
    unique = tuple(dict.fromkeys(scopes))
    for scope in unique:
        if not _TOKEN.fullmatch(scope):
            raise LocalError(f"{scope!r} is not a scope: it has spaces, quotes or special characters, or is empty")
    return unique


def union(*several: Iterable[str]) -> tuple[str, ...]:
    """All scopes without duplicates, in their order."""
    return tuple(dict.fromkeys(scope for scopes in several for scope in scopes))


def implied(granted: Iterable[str], implies: Mapping[str, Iterable[str]]) -> frozenset[str]:
    """The granted scopes and all those they include (2026-07-28 authorization, "Step-Up Authorization Flow")."""
    included: set[str] = set()
    remaining = list(granted)
    while remaining:
        scope = remaining.pop()
        if scope not in included:
            included.add(scope)
            remaining.extend(implies.get(scope, ()))
    return frozenset(included)


def select(
    challenged: Iterable[str],
    resource_supports: Iterable[str] | None,
    server_supports: Iterable[str] | None,
    *,
    before: Iterable[str] = (),
    offline: bool = True,
) -> tuple[str, ...]:
    """The scopes to request; none means that the parameter is left out, and the authorization server decides.

    These are the scopes of the challenge, else all in the metadata of the resource, and those requested before.
    `offline_access` is added if the authorization server supports it and other scopes are requested: alone, it would
    be the only scope of the token.
    """
    wanted = tuple(challenged) or tuple(resource_supports or ())
    chosen = union(before, wanted)
    if chosen and offline and OFFLINE in tuple(server_supports or ()):
        return union(chosen, (OFFLINE,))
    return chosen
