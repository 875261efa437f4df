"""Arguments from `key=value` words, converted by the tool's schema."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, cast

from dovetail.cli.parser import UsageError
from dovetail.cli.terminal.fields import read_number

_WORDS = {"true": True, "false": False}


def read_pairs(words: Sequence[str], what: str = "key=value") -> dict[str, str]:
    """Parse key=value words; a repeated key is an error."""
    pairs: dict[str, str] = {}
    for word in words:
        key, sign, value = word.partition("=")
        if not sign or not key:
            raise UsageError(f"{word!r} is not of the form {what}")
        if key in pairs:
            raise UsageError(f"{key!r} is given twice")
        pairs[key] = value
    return pairs


def read_arguments(words: Sequence[str], schema: dict[str, Any]) -> dict[str, Any]:
    """Parse `key=value`, converted to the schema's types, and `key:=JSON`.

    A repeated key makes a list.
    """
    arguments: dict[str, Any] = {}
    lists: set[str] = set()
    for word in words:
        key, sign, text = word.partition("=")
        if not sign or key in ("", ":"):
            raise UsageError(f"{word!r} is not of the form key=value or key:=JSON")
        literal = key.endswith(":")
        key = key.removesuffix(":")
        value = read_json(text, key) if literal else _read(text, _property(schema, key), schema, key)
        if key not in arguments:
            arguments[key] = value
        elif key in lists:
            arguments[key].append(_element(value))
        else:
            lists.add(key)
            first = arguments[key]
            arguments[key] = [*cast("list[Any]", first if isinstance(first, list) else [first]), _element(value)]
    return arguments


def read_object(text: str) -> dict[str, Any]:
    """Parse arguments given as one JSON object: inline, from a file (`@name`), or from stdin (`-`)."""
    if text == "-":
        text = sys.stdin.read()
    elif text.startswith("@"):
        try:
            with open(text[1:], encoding="utf-8") as file:
                text = file.read()
        except (OSError, UnicodeDecodeError) as problem:
            raise UsageError(f"{text[1:]} cannot be read: {problem}") from None
    value = read_json(text, "--json")
    if not isinstance(value, dict):
        raise UsageError("--json takes an object")
    return cast("dict[str, Any]", value)


def read_json(text: str, name: str) -> Any:
    """Parse JSON; the error names the argument."""
    import msgspec

    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as problem:
        raise UsageError(f"{name} is not JSON: {problem}") from None


def _read(text: str, schema: dict[str, Any], root: dict[str, Any], key: str) -> Any:
    """Convert text to the first of the schema's types that it fits."""
    types = schema_types(schema, root)
    if "string" in types and types <= {"string", "null"}:
        return text
    if text == "null" and "null" in types:
        return None
    if types & {"integer", "number"} and (number := read_number(text)) is not None:
        return number
    if "boolean" in types and text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if types & {"array", "object"}:
        return _composite(text, schema, root, types, key)
    return text if types else _guess(text)


def _composite(text: str, schema: dict[str, Any], root: dict[str, Any], types: set[str], key: str) -> Any:
    """Convert text to a list or an object: JSON, or for a list values separated by commas."""
    start = text.lstrip()[:1]
    if (start == "[" and "array" in types) or (start == "{" and "object" in types):
        return read_json(text, key)
    if "array" not in types:
        if "string" in types:
            return text
        raise UsageError(f"{key} is an object: write {key}='{{…}}', or all arguments with --json")
    if not text:
        return []
    items = array_items(schema, root)
    return [_read(part.strip(), items, root, key) for part in text.split(",")]


def array_items(schema: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    """The schema of the items of a list; empty if it says nothing about them."""
    for part in _parts(schema, root):
        items: Any = part.get("items")
        if isinstance(items, dict):
            return cast("dict[str, Any]", items)
    return {}


def _guess(text: str) -> Any:
    """Convert text without a known type: JSON if it parses, else a string."""
    import msgspec

    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text


def _property(schema: dict[str, Any], key: str) -> dict[str, Any]:
    properties: Any = schema.get("properties")
    member: Any = cast("dict[str, Any]", properties).get(key) if isinstance(properties, dict) else None
    return cast("dict[str, Any]", member) if isinstance(member, dict) else {}


def schema_types(schema: dict[str, Any], root: dict[str, Any]) -> set[str]:
    """The JSON types that a schema allows, as far as it states them."""
    types: set[str] = set()
    for part in _parts(schema, root):
        kind: Any = part.get("type")
        if isinstance(kind, list):
            types.update(str(name) for name in cast("list[Any]", kind))
        elif isinstance(kind, str):
            types.add(kind)
        values: list[Any] = [*cast("list[Any]", part.get("enum") or []), *([part["const"]] if "const" in part else [])]
        types.update(_type_of(value) for value in values if kind is None)
    return types


def _parts(schema: dict[str, Any], root: dict[str, Any], depth: int = 8) -> list[dict[str, Any]]:
    """The schema, the schemas it refers to, and its alternatives."""
    parts = [schema]
    if depth == 0:
        return parts
    reference: Any = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith("#/"):
        target: Any = root
        for step in reference[2:].split("/"):
            target = cast("dict[str, Any]", target).get(step) if isinstance(target, dict) else None
        if isinstance(target, dict):
            parts += _parts(cast("dict[str, Any]", target), root, depth - 1)
    for word in ("anyOf", "oneOf", "allOf"):
        options: Any = schema.get(word)
        for option in cast("list[Any]", options) if isinstance(options, list) else []:
            if isinstance(option, dict):
                parts += _parts(cast("dict[str, Any]", option), root, depth - 1)
    return parts


def _element(value: Any) -> Any:
    """A further value of a repeated key: `tag=a tag=b` is a list of two values, not of two lists."""
    if not isinstance(value, list):
        return value
    values = cast("list[Any]", value)
    return values[0] if len(values) == 1 else values


def _type_of(value: object) -> str:
    # In this order, because a bool is an int.
    for kind, name in ((str, "string"), (bool, "boolean"), (int, "integer"), (float, "number"), (list, "array")):
        if isinstance(value, kind):
            return name
    return "null" if value is None else "object"
