"""Definitions (`$defs`) of a schema document, and references to them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

REFS = "#/$defs/{name}"
_SUBSCHEMA = ("items", "additionalProperties", "propertyNames")
_SUBSCHEMAS = ("anyOf", "prefixItems")
_ROOT = "#/$defs/"


class Definitions:
    """Collects definitions from several sources; equal ones are shared, others with the same name are renamed."""

    def __init__(self) -> None:
        self.bodies: dict[str, dict[str, Any]] = {}

    def merge(self, schema: dict[str, Any], components: dict[str, Any]) -> dict[str, Any]:
        """Add definitions and return the schema that uses them; a name already in use gets a number."""
        renamed: dict[str, str] = {}
        for name, body in components.items():
            free, number = name, 2
            while free in self.bodies and self.bodies[free] != body:
                free, number = f"{name}{number}", number + 1
            if free != name:
                renamed[_ROOT + name] = _ROOT + free
        for name, body in components.items():
            target = renamed.get(_ROOT + name, _ROOT + name).removeprefix(_ROOT)
            self.bodies[target] = _with_renamed_refs(body, renamed) if renamed else body
        return _with_renamed_refs(schema, renamed) if renamed else schema

    def resolve(self, schema: dict[str, Any]) -> dict[str, Any]:
        """The definition behind a schema that is a reference, else the schema itself."""
        name = _target(schema)
        return schema if name is None else self.bodies[name]

    def rooted(self, schema: dict[str, Any]) -> dict[str, Any]:
        """A schema with the definitions it needs; a reference at the root is resolved in place.

        So the root of an object's schema has `"type": "object"`, which older revisions require.
        """
        if not self.bodies:
            return schema
        name = _target(schema)
        if name is None:
            return {**schema, "$defs": self.bodies}
        rest = {key: value for key, value in schema.items() if key != "$ref"}
        root = {**self.bodies[name], **rest}
        # A recursive definition is still referred to from within.
        kept = {key: body for key, body in self.bodies.items() if key != name}
        if any(part.get("$ref") == _ROOT + name for part in _walk(self.bodies)):
            kept = self.bodies
        return {**root, "$defs": kept} if kept else root


def portable(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema of msgspec without forms that clients and model APIs refuse.

    These are arrays without `items`, a boolean as `items`, where `maxItems` says the same, and an empty `required`.
    """
    kept = {key: value for key, value in schema.items() if not (key == "required" and value == [])}
    if kept.get("items") is False:
        del kept["items"]
    if kept.get("type") == "array" and "prefixItems" not in kept and kept.get("maxItems") != 0:
        kept.setdefault("items", {})
    for key in _SUBSCHEMA:
        if isinstance(kept.get(key), dict):
            kept[key] = portable(kept[key])
    for key in _SUBSCHEMAS:
        if key in kept:
            kept[key] = [portable(part) for part in kept[key]]
    if "properties" in kept:
        kept["properties"] = {name: portable(part) for name, part in kept["properties"].items()}
    return kept


def has_string_keyword(node: Any, keyword: str) -> bool:
    """True if a keyword with a string value occurs anywhere in a schema."""
    return any(isinstance(part.get(keyword), str) for part in _walk(node))


def has_fixed_member(node: Any) -> bool:
    """True if a member has one possible value, such as the tag of a struct, which msgspec allows to be missing."""
    return any("const" in part or _is_single(part.get("enum")) for part in _walk(node))


def _is_single(options: object) -> bool:
    return isinstance(options, list) and len(cast("list[Any]", options)) == 1


def _target(schema: dict[str, Any]) -> str | None:
    ref = schema.get("$ref")
    return ref.removeprefix(_ROOT) if isinstance(ref, str) else None


def _walk(node: Any) -> Iterator[dict[str, Any]]:
    stack = [node]
    while stack:
        top = stack.pop()
        if isinstance(top, dict):
            part = cast("dict[str, Any]", top)
            yield part
            stack.extend(part.values())
        elif isinstance(top, list):
            stack.extend(cast("list[Any]", top))


def _with_renamed_refs(node: Any, renamed: dict[str, str]) -> Any:
    if isinstance(node, dict):
        items = cast("dict[str, Any]", node).items()
        return {k: renamed.get(v, v) if k == "$ref" else _with_renamed_refs(v, renamed) for k, v in items}
    if isinstance(node, list):
        return [_with_renamed_refs(item, renamed) for item in cast("list[Any]", node)]
    return node
