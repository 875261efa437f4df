"""The roots of a client: directories and files that servers may work in."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from dovetail.protocol.errors import LocalError
from dovetail.types.client_features import Root

RootLike: TypeAlias = "str | os.PathLike[str] | Root"
Roots: TypeAlias = "Sequence[RootLike] | Callable[[], Sequence[RootLike] | Awaitable[Sequence[RootLike]]]"
"""Paths, file URIs or `Root` values; or a function that returns them for each `roots/list`."""


def check_roots(given: Sequence[RootLike]) -> None:
    """Raise `LocalError` for what can never be a root; one that does not exist may exist later."""
    if isinstance(given, str):
        raise LocalError(f"roots is a list of paths or file URIs, not {given!r}")
    for root in given:
        _path(root)


def readable_roots(given: Sequence[RootLike]) -> list[Root]:
    """The roots that exist and can be read now, as file URIs without links, dots or repetitions.

    Roots, "Security Considerations": only roots with appropriate permissions are exposed.
    """
    by_uri: dict[str, Root] = {}
    for root in given:
        path = os.path.realpath(_path(root))
        needed = os.R_OK | os.X_OK if os.path.isdir(path) else os.R_OK
        if os.path.exists(path) and os.access(path, needed):
            uri = _uri(path)
            name = root.name if isinstance(root, Root) and root.name else os.path.basename(path) or None
            by_uri.setdefault(uri, Root(uri, name))
    return list(by_uri.values())


def _path(root: RootLike) -> str:
    text = root.uri if isinstance(root, Root) else os.fspath(root)
    if isinstance(root, Root) or "://" in text or text.startswith("file:"):
        text = _path_of_uri(text)
    if not text or "\0" in text:
        raise LocalError(f"{text!r} is not a path to have as a root")
    return os.path.abspath(os.path.expanduser(text))


def _path_of_uri(uri: str) -> str:
    from urllib.parse import unquote, urlsplit

    parts = urlsplit(uri)
    path = unquote(parts.path)
    if parts.scheme != "file":
        raise LocalError(f"A root is a path or a file URI, not {uri!r}")
    if parts.netloc not in ("", "localhost") or not path.startswith("/") or parts.query or parts.fragment:
        raise LocalError(f"A root names a place on this machine, as file:///path does; not {uri!r}")
    return path[1:] if os.name == "nt" else path


def _uri(path: str) -> str:
    from pathlib import Path

    return Path(path).as_uri()
