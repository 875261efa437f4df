"""Which scopes to ask for: as few as the server wants, and never fewer than before.

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
    """The scopes of a parameter of a peer's, each once; what is no scope (RFC 6749, section 3.3) is left out."""
    return cleaned(text.split(" "))


def cleaned(scopes: Iterable[str]) -> tuple[str, ...]:
    """Those that are scopes, each once, in their order."""
    found = dict.fromkeys(scope for scope in scopes if _TOKEN.fullmatch(scope))
    return tuple(found)[:MAX_SCOPES]


def checked(scopes: Iterable[str]) -> tuple[str, ...]:
    """Scopes of our own, each once."""
    found = tuple(dict.fromkeys(scopes))
    for scope in found:
        if not _TOKEN.fullmatch(scope):
            raise LocalError(f"{scope!r} is no scope: it has blanks, quotes or special letters, or is empty")
    return found


def union(*several: Iterable[str]) -> tuple[str, ...]:
    """All of them, each once, in the order in which they came."""
    return tuple(dict.fromkeys(scope for scopes in several for scope in scopes))


def implied(granted: Iterable[str], implies: Mapping[str, Iterable[str]]) -> frozenset[str]:
    """All that a token allows whose scopes include others (2026-07-28 authorization, "Step-Up Authorization Flow")."""
    found: set[str] = set()
    fresh = list(granted)
    while fresh:
        scope = fresh.pop()
        if scope not in found:
            found.add(scope)
            fresh.extend(implies.get(scope, ()))
    return frozenset(found)


def select(
    challenged: Iterable[str],
    resource_supports: Iterable[str] | None,
    server_supports: Iterable[str] | None,
    *,
    before: Iterable[str] = (),
    offline: bool = True,
) -> tuple[str, ...]:
    """What to ask for; none means that the parameter is left out, and the authorization server decides.

    The scopes of the challenge, else all that the resource's metadata names; those asked for before stay.
    `offline_access` is added where the authorization server names it, and the parameter is sent anyway: alone it
    would ask for nothing else.
    """
    wanted = tuple(challenged) or tuple(resource_supports or ())
    chosen = union(before, wanted)
    if chosen and offline and OFFLINE in tuple(server_supports or ()):
        return union(chosen, (OFFLINE,))
    return chosen
