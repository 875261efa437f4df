"""Matching of notifications with subscriptions, without I/O.

A subscription to a resource covers its sub-resources (`notifications/resources/updated`: the URI "might be a
sub-resource of the one that the client actually subscribed to").
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from typing import Any, Literal, TypeAlias, cast

from dovetail.types.messages import SubscriptionFilter

ListKind: TypeAlias = Literal["tools", "resources", "prompts"]
LIST_KINDS: tuple[ListKind, ...] = ("tools", "resources", "prompts")

_SEPARATORS = "/?#"


def ancestors(uri: str) -> Iterator[str]:
    """The URI itself and all those it is a sub-resource of, with and without a final separator."""
    yield uri
    root = _root(uri)
    for place in range(len(uri) - 1, root - 1, -1):
        if uri[place] in _SEPARATORS:
            if place + 1 < len(uri):
                yield uri[: place + 1]
            if place > root:
                yield uri[:place]


def covers(subscribed: str, uri: str) -> bool:
    """True if a subscription to one URI covers the other: it is the same, or a sub-resource."""
    if subscribed == uri:
        return True
    if not uri.startswith(subscribed) or len(subscribed) <= _root(uri):
        return False
    return subscribed[-1] in _SEPARATORS or uri[len(subscribed)] in _SEPARATORS


def covering(subscribed: Container[str], uri: str) -> list[str]:
    """The subscribed URIs that cover a URI, the most specific first."""
    return [each for each in ancestors(uri) if each in subscribed]


def includes_list(wanted: SubscriptionFilter, kind: ListKind) -> bool:
    """True if a subscription includes the changes of a list."""
    return bool(getattr(wanted, f"{kind}_list_changed"))


def unacknowledged(requested: Iterable[str], acknowledged: object) -> list[str]:
    """The resources that a server has not acknowledged; `acknowledged` is the filter as it was received.

    2026-07-28 subscriptions, "Acknowledgment": the server names what it will send notifications of.
    """
    fields = cast("dict[str, Any]", acknowledged) if isinstance(acknowledged, dict) else {}
    uris = fields.get("resourceSubscriptions")
    return [uri for uri in requested if not isinstance(uris, list) or uri not in uris]


def _root(uri: str) -> int:
    """The index where the path begins; a scheme alone has no sub-resources."""
    scheme, separator, _ = uri.partition("://")
    return len(scheme) + len(separator) if separator else uri.find(":") + 1


def may_contain(uri: str, key: str) -> bool:
    """True if some resource of a URI or template `key` may lie below a URI."""
    fixed, variable, _ = key.partition("{")
    return covers(uri, fixed) or (bool(variable) and uri.startswith(fixed))
