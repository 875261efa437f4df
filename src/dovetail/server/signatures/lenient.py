"""Lenient arguments: repair of mistakes that models are known to make, after strict validation has failed.

A string becomes a number, boolean, null, list or object where the schema allows that type and no string, so that there
is one way to read it. A null for an optional argument becomes a missing one. Nothing else is guessed.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from typing import Any, cast

import msgspec

from dovetail.server.signatures.binding import BadArguments, ToolBinding

_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,3})?", re.ASCII)
_WORDS: dict[str, tuple[str, Any]] = {
    "true": ("boolean", True), "false": ("boolean", False), "null": ("null", None),
    "True": ("boolean", True), "False": ("boolean", False), "None": ("null", None),
}  # fmt: skip
_TYPES: dict[type, str] = {
    str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null", list: "array", dict: "object",
}  # fmt: skip
_MAX_DEPTH = 32


class LenientToolBinding(ToolBinding):
    """Binding of a tool that repairs arguments and tries again; if that fails too, the first problems are reported."""

    __slots__ = ("_repair",)

    def __init__(self, **parts: Any) -> None:
        super().__init__(**parts)
        self._repair = ArgumentRepair(self.input_schema)

    def bind(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The keyword arguments for the call; raises BadArguments with every problem of the arguments as sent."""
        try:
            return super().bind(arguments)
        except BadArguments:
            repaired = self._repair(arguments)
            if repaired is arguments:
                raise
            try:
                return super().bind(repaired)
            except BadArguments:
                pass  # the problems that the caller can act on are those of what it sent
            raise


class ArgumentRepair:
    """Repair of values by the types that a schema allows; the given values are not changed."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self._root = _Part(_Compiler(schema), schema)

    def __call__(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The repaired arguments, or the same object if there is nothing to repair."""
        try:
            return self._root.repair(arguments, 0)
        except RecursionError:
            return arguments


class _Compiler:
    """Parts of one schema document, with references resolved; a definition that refers to itself is made once."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._document = document
        self._made: dict[int, _Part] = {}

    def part(self, schema: Any) -> _Part | None:
        """The part for a schema; None for one that says nothing about types."""
        if not isinstance(schema, dict):
            return None
        members = cast("dict[str, Any]", schema)
        if id(members) not in self._made:
            part = _Part.__new__(_Part)
            self._made[id(members)] = part
            part.__init__(self, members)
        return self._made[id(members)]

    def alternatives(self, schema: Any, depth: int = 0) -> list[dict[str, Any]] | None:
        """The simple schemas that a schema is a choice of; None if that cannot be told."""
        if not isinstance(schema, dict) or depth > _MAX_DEPTH:
            return None
        members = cast("dict[str, Any]", schema)
        if "$ref" in members:
            return self.alternatives(self._resolve(members["$ref"]), depth + 1)
        for key in ("anyOf", "oneOf", "allOf"):
            if key in members:
                choices: list[Any] = members[key]
                if key == "allOf" and len(choices) > 1:
                    return None
                found = [self.alternatives(choice, depth + 1) for choice in choices]
                return None if None in found else [one for some in found if some for one in some]
        return [members]

    def _resolve(self, reference: Any) -> Any:
        node: Any = self._document
        if not isinstance(reference, str) or not reference.startswith("#/"):
            return None
        for name in reference[2:].split("/"):
            node = cast("dict[str, Any]", node).get(name) if isinstance(node, dict) else None
        return node


class _Part:
    """One schema: the types that it allows, and the parts of its objects and arrays."""

    __slots__ = ("items", "prefix", "properties", "required", "rest", "types")

    def __init__(self, compiler: _Compiler, schema: dict[str, Any]) -> None:
        self.types: frozenset[str] = frozenset()
        """The allowed types; empty if they are not known."""
        self.properties: Mapping[str, _Part | None] = {}
        self.required: frozenset[str] = frozenset()
        self.rest: _Part | None = None
        self.items: _Part | None = None
        self.prefix: list[_Part | None] = []
        """The parts of the first items, as of a tuple."""
        alternatives = compiler.alternatives(schema)
        types = None if alternatives is None else [_types(one) for one in alternatives]
        if alternatives is None or types is None or not all(types):
            return
        self.types = frozenset[str]().union(*types)
        objects = [one for one, named in zip(alternatives, types, strict=True) if "object" in named]
        arrays = [one for one, named in zip(alternatives, types, strict=True) if "array" in named]
        if len(objects) == 1:  # of several it is not known which one is meant
            properties: dict[str, Any] = objects[0].get("properties", {})
            self.properties = {name: compiler.part(schema) for name, schema in properties.items()}
            self.required = frozenset(objects[0].get("required", ()))
            self.rest = compiler.part(objects[0].get("additionalProperties"))
        if len(arrays) == 1:
            self.items = compiler.part(arrays[0].get("items"))
            self.prefix = [compiler.part(schema) for schema in arrays[0].get("prefixItems", ())]

    def repair(self, value: Any, depth: int) -> Any:
        """The repaired value, or the same object."""
        if depth > _MAX_DEPTH:
            return value
        if isinstance(value, str):
            return self._read(value, depth) if self.types and "string" not in self.types else value
        if isinstance(value, dict):
            return self._repair_object(cast("dict[str, Any]", value), depth)
        if isinstance(value, list):
            return self._repair_array(cast("list[Any]", value), depth)
        return value

    def _repair_array(self, value: list[Any], depth: int) -> list[Any]:
        parts = itertools.chain(self.prefix, itertools.repeat(self.items))
        repaired = [item if part is None else part.repair(item, depth + 1) for item, part in zip(value, parts)]  # noqa: B905
        return value if all(a is b for a, b in zip(value, repaired, strict=True)) else repaired

    def _repair_object(self, value: dict[str, Any], depth: int) -> dict[str, Any]:
        repaired: dict[str, Any] = {}
        changed = False
        for name, member in value.items():
            part = self.properties.get(name, self.rest)
            if part is None:
                repaired[name] = member
            elif member is None and name not in self.required and part.types and "null" not in part.types:
                changed = True  # left out: the parameter has a default
            else:
                repaired[name] = part.repair(member, depth + 1)
                changed = changed or repaired[name] is not member
        return repaired if changed else value

    def _read(self, text: str, depth: int) -> Any:
        """The value that a string stands for; the string itself if it stands for none that is allowed."""
        stripped = text.strip()
        if stripped[:1] in ("[", "{"):
            try:
                value = msgspec.json.decode(stripped)
            except (msgspec.DecodeError, ValueError):
                return text
            return self.repair(value, depth + 1) if _TYPES[type(value)] in self.types else text
        if stripped in _WORDS:
            kind, value = _WORDS[stripped]
            return value if kind in self.types else text
        if not self.types.isdisjoint(("integer", "number")) and _NUMBER.fullmatch(stripped):
            return msgspec.json.decode(stripped)  # a fraction for an integer is refused by the validation that follows
        return text


def _types(schema: dict[str, Any]) -> frozenset[str]:
    """The types of a simple schema; empty if it allows any."""
    named = schema.get("type")
    if isinstance(named, str):
        return frozenset((named,))
    if isinstance(named, list):
        return frozenset(cast("list[str]", named))
    values: list[Any] = [schema["const"]] if "const" in schema else schema.get("enum", [])
    return frozenset(_TYPES[type(value)] for value in values)
