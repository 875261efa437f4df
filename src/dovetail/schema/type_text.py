"""Short type texts for JSON Schemas, such as `list[int] | None`, and signatures of tools made of them.

The text is for users to read. It follows the notation of Python where that has one, and leaves out what does not
fit on a line: bounds, patterns and the properties of named objects.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

_NAMES = {"integer": "int", "number": "float", "string": "str", "boolean": "bool", "null": "None"}
_FORMATS = {"date": "date", "date-time": "datetime", "time": "time", "uuid": "UUID"}
_DEPTH = 5
_ALTERNATIVES = 8
_DEFAULT = 32
_NAME = 64

Schema = dict[str, Any]


class Argument(NamedTuple):
    """An argument of a tool, as its input schema describes it."""

    name: str
    type: str
    required: bool
    default: str | None = None
    """The default value as text; None if the schema names none."""
    description: str = ""

    def __str__(self) -> str:
        """The argument in a signature: `b: int = 3`, or `b?: int` if it may be left out."""
        mark = "?" if not self.required and self.default is None else ""
        default = "" if self.default is None or self.required else f" = {self.default}"
        return f"{self.name}{mark}: {self.type}{default}"


def type_text(schema: object, root: Schema | None = None) -> str:
    """The type of the values that a schema accepts; references are looked up in `root`."""
    return _text(schema, root if root is not None else _object(schema), 0)


def arguments(schema: Schema, root: Schema | None = None) -> list[Argument]:
    """The arguments that an input schema describes, the required ones first."""
    root = schema if root is None else root
    required = schema.get("required")
    names: Sequence[Any] = cast("list[Any]", required) if isinstance(required, list) else ()
    fields = _object(schema.get("properties"))
    listed = [_argument(name, field, root, name in names) for name, field in fields.items()]
    return sorted(listed, key=lambda argument: not argument.required)


def signature(name: str, input_schema: Schema, output_schema: Schema | None = None) -> str:
    """A tool as the signature of a function: `add(a: int, b: int = 3) -> int`."""
    result = "" if output_schema is None else f" -> {type_text(output_schema)}"
    return f"{name}({', '.join(map(str, arguments(input_schema)))}){result}"


def named_types(schema: Schema) -> list[str]:
    """The objects that a schema defines under a name, each as a signature: `Stay(name: str, nights: int = 1)`."""
    found: dict[str, str] = {}
    for word in ("$defs", "definitions"):
        for name, part in _object(schema.get(word)).items():
            definition = _object(part)
            if definition.get("properties"):
                found[name] = f"{name}({', '.join(map(str, arguments(definition, schema)))})"
    return list(found.values())


def value_text(value: object) -> str:
    """A JSON value in the notation of the type texts, cut to a few words."""
    if value is None or isinstance(value, bool):
        return str(value)
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _DEFAULT else f"{text[: _DEFAULT - 1]}…"


def _argument(name: str, field: object, root: Schema, required: bool) -> Argument:
    about = _object(field)
    description = about.get("description")
    return Argument(
        name,
        type_text(field, root),
        required,
        value_text(about["default"]) if "default" in about else None,
        description if isinstance(description, str) else "",
    )


def _text(node: object, root: Schema, depth: int) -> str:
    if node is False:
        return "Never"
    schema = _object(node)
    if depth > _DEPTH or not schema:
        return "Any"
    if isinstance(schema.get("$ref"), str):
        return _referred(schema["$ref"], root, depth)
    if "const" in schema:
        return value_text(schema["const"])
    if isinstance(schema.get("enum"), list):
        return _united([value_text(value) for value in schema["enum"]])
    for word in ("anyOf", "oneOf"):
        if isinstance(schema.get(word), list):
            return _united([_text(part, root, depth + 1) for part in schema[word][: _ALTERNATIVES + 1]])
    kind = schema.get("type")
    if isinstance(kind, list):
        return _united([_plain({**schema, "type": one}, root, depth) for one in cast("list[Any]", kind)])
    return _plain(schema, root, depth)


def _plain(schema: Schema, root: Schema, depth: int) -> str:
    """The text of a schema with at most one type."""
    match schema.get("type"):
        case "array":
            return _array(schema, root, depth)
        case "string":
            return _FORMATS.get(str(schema.get("format")), "str")
        case "object":
            return _mapping(schema, root, depth)
        case str() as name:
            return _NAMES.get(name, "Any")
        case _:
            return _mapping(schema, root, depth) if "properties" in schema else "Any"


def _array(schema: Schema, root: Schema, depth: int) -> str:
    leading = schema.get("prefixItems")
    if isinstance(leading, list) and leading:
        parts = [_text(part, root, depth + 1) for part in cast("list[Any]", leading)[:_ALTERNATIVES]]
        return f"tuple[{', '.join(parts)}]"
    items = _text(schema["items"], root, depth + 1) if "items" in schema else "Any"
    return "list" if items == "Any" else f"list[{items}]"


def _mapping(schema: Schema, root: Schema, depth: int) -> str:
    title = schema.get("title")
    if isinstance(title, str) and title.isidentifier():
        return title[:_NAME]
    others = schema.get("additionalProperties")
    if isinstance(others, dict) and others and not schema.get("properties"):
        return f"dict[str, {_text(cast('Schema', others), root, depth + 1)}]"
    fields = list(_object(schema.get("properties")))
    if not fields:
        return "dict"
    return f"{{{', '.join(fields[:_ALTERNATIVES])}{', …' if len(fields) > _ALTERNATIVES else ''}}}"


def _referred(ref: str, root: Schema, depth: int) -> str:
    """The text of a definition: the name of an object, otherwise the type itself."""
    if not ref.startswith("#/"):
        return "dict" if ref == "#" else "Any"
    node: object = root
    steps = ref[2:].split("/")
    for step in steps:
        node = _object(node).get(step.replace("~1", "/").replace("~0", "~"))
    definition = _object(node)
    if not definition or definition.get("type") == "object" or depth >= _DEPTH:
        title = definition.get("title")
        return (title if isinstance(title, str) and title.isidentifier() else steps[-1])[:_NAME]
    return _text(definition, root, depth + 1)


def _united(parts: Sequence[str]) -> str:
    unique = list(dict.fromkeys(parts))
    if "Any" in unique:
        return "Any"
    # None last, as in `str | None`.
    unique.sort(key=lambda part: part == "None")
    shown = [part if len(part) <= _NAME * 2 else f"{part[: _NAME * 2]}…" for part in unique[:_ALTERNATIVES]]
    return " | ".join(shown) + (" | …" if len(unique) > _ALTERNATIVES else "") or "Never"


def _object(value: object) -> Schema:
    return cast("Schema", value) if isinstance(value, dict) else {}
