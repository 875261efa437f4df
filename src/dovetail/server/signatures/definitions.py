"""The definitions at the root of one schema document, and the references to them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

REFS = "#/$defs/{name}"
_ROOT = "#/$defs/"


class Definitions:
    """Collects definitions from several sources; equal ones are shared, names are kept apart."""

    def __init__(self) -> None:
        self.bodies: dict[str, dict[str, Any]] = {}

    def adopt(self, schema: dict[str, Any], components: dict[str, Any]) -> dict[str, Any]:
        """Take over definitions and return the schema that uses them; a name already taken gets a number."""
        moved: dict[str, str] = {}
        for name, body in components.items():
            free, number = name, 2
            while free in self.bodies and self.bodies[free] != body:
                free, number = f"{name}{number}", number + 1
            if free != name:
                moved[_ROOT + name] = _ROOT + free
        for name, body in components.items():
            target = moved.get(_ROOT + name, _ROOT + name).removeprefix(_ROOT)
            self.bodies[target] = _rewritten(body, moved) if moved else body
        return _rewritten(schema, moved) if moved else schema

    def resolve(self, schema: dict[str, Any]) -> dict[str, Any]:
        """The definition behind a schema that is a reference, else the schema itself."""
        name = _target(schema)
        return schema if name is None else self.bodies[name]

    def rooted(self, schema: dict[str, Any]) -> dict[str, Any]:
        """A schema with the definitions it needs; a lone reference at the root is resolved in place.

        So the root of an object's schema says `"type": "object"`, which older revisions ask for.
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
        if any(found.get("$ref") == _ROOT + name for found in _walk(self.bodies)):
            kept = self.bodies
        return {**root, "$defs": kept} if kept else root


def mentions(node: Any, keyword: str) -> bool:
    """Whether a keyword with a string stands anywhere in a schema."""
    return any(isinstance(found.get(keyword), str) for found in _walk(node))


def has_fixed_member(node: Any) -> bool:
    """Whether something has one possible value, such as the tag of a struct, which msgspec lets go missing."""
    return any("const" in found or _is_single(found.get("enum")) for found in _walk(node))


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
            found = cast("dict[str, Any]", top)
            yield found
            stack.extend(found.values())
        elif isinstance(top, list):
            stack.extend(cast("list[Any]", top))


def _rewritten(node: Any, moved: dict[str, str]) -> Any:
    if isinstance(node, dict):
        items = cast("dict[str, Any]", node).items()
        return {k: moved.get(v, v) if k == "$ref" else _rewritten(v, moved) for k, v in items}
    if isinstance(node, list):
        return [_rewritten(item, moved) for item in cast("list[Any]", node)]
    return node
