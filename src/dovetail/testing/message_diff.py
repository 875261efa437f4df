"""Comparison of messages: identity, equality, and readable diffs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, TypeAlias, cast

import msgspec

Json: TypeAlias = dict[str, Any]
Path: TypeAlias = tuple[str, ...]

HIDDEN = "(hidden)"
"""Replaces secrets in a transcript; matches any value."""

GREETINGS = ("initialize", "server/discover")


def as_path(path: str | Path) -> Path:
    """A path into a message: `"result.structuredContent.at"`, or its parts where a name has dots in it."""
    return tuple(path.split(".")) if isinstance(path, str) else path


def essence(message: Json) -> Json:
    """The identity of a client's message: without its id, client info and `_meta`."""
    method = message.get("method")
    if method is None:
        return {name: message[name] for name in ("result", "error") if name in message}
    params = message.get("params")
    if not isinstance(params, dict):
        return {"method": method}
    members = cast(Json, params)
    wanted = ("protocolVersion",) if method in GREETINGS else [name for name in members if name != "_meta"]
    kept = {name: members[name] for name in wanted if name in members}
    return {"method": method, "params": kept} if kept else {"method": method}


def same(recorded: Any, actual: Any) -> bool:
    """True if two JSON values are equal; a hidden value equals any."""
    if isinstance(recorded, str) and recorded == HIDDEN:
        return True
    if isinstance(recorded, dict) and isinstance(actual, dict):
        left, right = cast(Json, recorded), cast(Json, actual)
        return left.keys() == right.keys() and all(same(left[name], right[name]) for name in left)
    if isinstance(recorded, list) and isinstance(actual, list):
        these, those = cast("list[Any]", recorded), cast("list[Any]", actual)
        return len(these) == len(those) and all(same(a, b) for a, b in zip(these, those, strict=True))
    # True and 1 are equal in Python and two things in JSON; 1 and 1.0 are one.
    return recorded == actual and isinstance(recorded, bool) == isinstance(actual, bool)


def without(value: Any, paths: Collection[Path]) -> Any:
    """The value without the members at these paths; `*` matches every member and item."""
    here = [path for path in paths if path]
    if not here:
        return value
    if isinstance(value, dict):
        return {
            name: without(item, _below(here, name))
            for name, item in cast(Json, value).items()
            if not any(path in ((name,), ("*",)) for path in here)
        }
    if isinstance(value, list):
        return [without(item, _below(here, str(i))) for i, item in enumerate(cast("list[Any]", value))]
    return value


def _below(paths: Collection[Path], name: str) -> list[Path]:
    return [path[1:] for path in paths if path[0] in (name, "*")]


def replaced(value: Any, known: Mapping[str, str]) -> Any:
    """The value with strings replaced wherever they occur."""
    if not known:
        return value
    if isinstance(value, str):
        return known.get(value, value)
    if isinstance(value, dict):
        return {name: replaced(item, known) for name, item in cast(Json, value).items()}
    if isinstance(value, list):
        return [replaced(item, known) for item in cast("list[Any]", value)]
    return value


def pretty(value: Any) -> str:
    """A value as indented JSON with sorted members."""
    return msgspec.json.format(msgspec.json.encode(value, order="deterministic"), indent=2).decode()


def difference(before: Any, after: Any, names: tuple[str, str] = ("recorded", "now")) -> str:
    """A unified diff of two values."""
    import difflib

    lines = difflib.unified_diff(pretty(before).splitlines(), pretty(after).splitlines(), *names, lineterm="")
    return "\n".join(lines)


def title(message: Json) -> str:
    """A short description of a message."""
    method = message.get("method")
    if method is None:
        return f"the answer to {message.get('id')!r}"
    params = message.get("params")
    if not isinstance(params, dict):
        return str(method)
    members = cast(Json, params)
    target = members.get("name", members.get("uri"))
    return str(method) if target is None else f"{method} {target!r}"
