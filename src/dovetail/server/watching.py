"""Which resources a client may watch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dovetail.protocol.resource_tree import covers

if TYPE_CHECKING:
    from .app import Server


def is_watchable(server: Server, uri: str, principal: str | None) -> bool:
    """Whether the principal can read the resource, or one below it: a folder, say, of resources."""
    if (found := server.find_resource(uri)) is not None:
        return server.shows(principal, "resource", found[0].key)
    return any(
        _may_be_above(uri, key) and server.shows(principal, "resource", key)
        for registry in (server.resources, server.templates)
        for key, _ in registry.items()
    )


def _may_be_above(uri: str, key: str) -> bool:
    """Whether some resource that the key stands for may lie below the URI."""
    fixed, variable, _ = key.partition("{")
    return covers(uri, fixed) or (bool(variable) and uri.startswith(fixed))
