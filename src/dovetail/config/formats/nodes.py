"""Plain values as nodes, for formats whose parsers tell no places."""

from __future__ import annotations

from typing import Any, cast

from dovetail.config.jsonc import Array, Member, Node, Object, Scalar


def to_node(value: Any, start: int, end: int) -> Node:
    """A value as a node; all of its parts get the same place."""
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        return Object(
            start,
            end,
            {name: Member(Scalar(start, end, name), to_node(item, start, end), None) for name, item in members.items()},
        )
    if isinstance(value, list):
        return Array(start, end, tuple(to_node(item, start, end) for item in cast("list[Any]", value)))
    if value is None or isinstance(value, str | bool | int | float):
        return Scalar(start, end, value)
    return Scalar(start, end, str(value))
