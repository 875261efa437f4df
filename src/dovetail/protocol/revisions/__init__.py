"""All published revisions of the protocol; the only package that knows their dates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dovetail.protocol.errors import LocalError

from . import r2024_11_05, r2025_03_26, r2025_06_18, r2025_11_25, r2026_07_28
from .revision import Method, Revision

REVISIONS: dict[str, Revision] = {
    module.REVISION.name: module.REVISION
    for module in (r2024_11_05, r2025_03_26, r2025_06_18, r2025_11_25, r2026_07_28)
}
"""By name, oldest first."""

HANDSHAKE = tuple(name for name, revision in REVISIONS.items() if revision.era == "handshake")
ENVELOPE = tuple(name for name, revision in REVISIONS.items() if revision.era == "envelope")
NEWEST = REVISIONS[next(reversed(REVISIONS))]
NEWEST_HANDSHAKE = REVISIONS[HANDSHAKE[-1]]


def find(name: str) -> Revision | None:
    """The revision of this name, if there is one."""
    return REVISIONS.get(name)


def select_revisions(names: Sequence[str] | None) -> Mapping[str, Revision]:
    """The revisions of these names, oldest first; all of them for None. Raises `LocalError` for an unknown one."""
    if names is None:
        return REVISIONS
    unknown = [name for name in names if name not in REVISIONS]
    if unknown or not names:
        raise LocalError(
            f"Unknown protocol revision {', '.join(unknown) or '(none)'}; there are {', '.join(REVISIONS)}"
        )
    return {name: revision for name, revision in REVISIONS.items() if name in names}


__all__ = [
    "ENVELOPE",
    "HANDSHAKE",
    "NEWEST",
    "NEWEST_HANDSHAKE",
    "REVISIONS",
    "Method",
    "Revision",
    "find",
    "select_revisions",
]
