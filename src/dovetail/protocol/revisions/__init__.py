"""All published revisions of the protocol; the only package that knows their dates."""

from __future__ import annotations

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


__all__ = ["ENVELOPE", "HANDSHAKE", "NEWEST", "NEWEST_HANDSHAKE", "REVISIONS", "Method", "Revision", "find"]
