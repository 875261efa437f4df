"""Subschemas of a JSON Schema with their places, and the references that lead back to themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, cast

from dovetail.schema.cost import MAX_NODES

Schema = dict[str, Any]

_MAX_PATH = 200

_ONE = ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames")
_MANY = ("anyOf", "oneOf", "allOf", "prefixItems")
_NAMED = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")


class Place(NamedTuple):
    """A subschema and where it is."""

    path: str
    schema: Any
    levels: int
    """Objects around it, itself included."""


def places(root: Schema) -> Iterator[Place]:
    """The schema and everything below it, definitions included; at most `MAX_NODES`."""
    stack = [Place("", root, 0)]
    for _ in range(MAX_NODES):
        if not stack:
            return
        place = stack.pop()
        if isinstance(place.schema, dict):
            schema = cast("Schema", place.schema)
            level = place.levels + ("properties" in schema or schema.get("type") == "object")
            yield place._replace(levels=level)
            stack.extend(reversed(list(_below(place.path[:_MAX_PATH], schema, level))))
        else:
            yield place


def recursive_references(root: Schema) -> list[str]:
    """The definitions that refer to themselves, directly or through others."""
    uses = {name: _references(definition) for name, definition in _definitions(root).items()}
    uses["#"] = _references({key: value for key, value in root.items() if key not in ("$defs", "definitions")})
    return [name for name in uses if _reaches(name, name, uses)]


def object_of(value: object) -> Schema:
    """The value as an object; an empty one if it is something else."""
    return cast("Schema", value) if isinstance(value, dict) else {}


def _below(path: str, schema: Schema, level: int) -> Iterator[Place]:
    for word in _ONE:
        if word in schema and not (word == "additionalProperties" and isinstance(schema[word], bool)):
            yield Place(f"{path}[]" if word == "items" else f"{path}.{word}", schema[word], level)
    for word in _MANY:
        parts = schema.get(word)
        for part in cast("list[Any]", parts) if isinstance(parts, list) else ():
            yield Place(path, part, level)
    for word in _NAMED:
        for name, part in object_of(schema.get(word)).items():
            # A definition is named by itself: it may be used in many places.
            in_definitions = word in ("$defs", "definitions")
            yield Place(name if in_definitions or not path else f"{path}.{name}", part, 0 if in_definitions else level)


def _definitions(root: Schema) -> dict[str, Any]:
    return {
        f"#/{word}/{name}": part
        for word in ("$defs", "definitions")
        for name, part in object_of(root.get(word)).items()
    }


def _references(node: Any) -> set[str]:
    return {
        str(object_of(place.schema)["$ref"]) for place in places({"items": node}) if "$ref" in object_of(place.schema)
    }


def _reaches(start: str, goal: str, uses: dict[str, set[str]]) -> bool:
    seen: set[str] = set()
    stack = [start]
    while stack:
        for name in uses.get(stack.pop(), ()):
            if name == goal:
                return True
            if name not in seen:
                seen.add(name)
                stack.append(name)
    return False
