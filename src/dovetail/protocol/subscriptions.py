"""Which resources lie below which: a client that watches one hears of those too.

`notifications/resources/updated`: the URI "might be a sub-resource of the one that the client actually
subscribed to".
"""

from __future__ import annotations

from collections.abc import Iterator

_SEPARATORS = "/?#"


def above(uri: str) -> Iterator[str]:
    """The URI itself and every one that it is a sub-resource of, written with or without a final separator."""
    yield uri
    root = _root(uri)
    for place in range(len(uri) - 1, root - 1, -1):
        if uri[place] in _SEPARATORS:
            if place + 1 < len(uri):
                yield uri[: place + 1]
            if place > root:
                yield uri[:place]


def covers(watched: str, uri: str) -> bool:
    """Whether somebody who watches one URI hears of the other."""
    if watched == uri:
        return True
    if not uri.startswith(watched) or len(watched) <= _root(uri):
        return False
    return watched[-1] in _SEPARATORS or uri[len(watched)] in _SEPARATORS


def _root(uri: str) -> int:
    """Where the part begins that can be cut; a scheme alone is above nothing."""
    scheme, found, _ = uri.partition("://")
    return len(scheme) + len(found) if found else uri.find(":") + 1
