"""Wrapping of output schemas, for revisions where structured content must be an object."""

from __future__ import annotations

from typing import Any, cast

WRAP_MARK = "x-fastmcp-wrap-result"
"""Keyword of FastMCP in a wrapped output schema: its clients unwrap results of such tools only."""

_SHARED = ("$schema", "$defs", "definitions")


def is_object_schema(schema: dict[str, Any]) -> bool:
    """True if values of this schema are objects, which need no wrapping."""
    return schema.get("type") == "object"


def wrap_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of `{"result": value}`; definitions move to the top, where references look for them."""
    if "$id" in schema:
        # Such a schema is a separate document: its references are relative to it.
        shared = {key: schema[key] for key in ("$schema",) if key in schema}
        inner = schema
    else:
        shared = {key: _moved(schema[key]) for key in _SHARED if key in schema}
        inner = {key: _moved(item) for key, item in schema.items() if key not in _SHARED}
        inner = _moved_reference(inner)
    return {**shared, "type": "object", "properties": {"result": inner}, "required": ["result"], WRAP_MARK: True}


def _moved(part: Any) -> Any:
    """A part of the schema, with its references to the root and below adjusted to the new place."""
    if isinstance(part, list):
        return [_moved(item) for item in cast("list[Any]", part)]
    if isinstance(part, dict):
        members = cast("dict[str, Any]", part)
        if "$id" in members:
            return members
        return _moved_reference({key: _moved(item) for key, item in members.items()})
    return part


def _moved_reference(members: dict[str, Any]) -> dict[str, Any]:
    target = members.get("$ref")
    if not isinstance(target, str) or target.startswith(("#/$defs/", "#/definitions/")):
        return members
    if target == "#" or target.startswith("#/"):
        members["$ref"] = "#/properties/result" + target[1:]
    return members
