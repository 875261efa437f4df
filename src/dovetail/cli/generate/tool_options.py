"""Commands and options for the tools of a server: names, types and help from the schemas."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, cast

from dovetail.cli.options.values import array_items, schema_types
from dovetail.cli.output import printable

if TYPE_CHECKING:
    from dovetail.types.tools import Tool

OptionKind: TypeAlias = Literal["string", "integer", "number", "boolean", "json"]

MAX_HELP = 400
"""Characters of a description that are shown."""
_RESERVED = frozenset({"help"})
_SCALARS: tuple[OptionKind, ...] = ("string", "integer", "number", "boolean")


class ToolOption(NamedTuple):
    """An option for an argument of a tool."""

    flag: str
    """Such as `--nights`."""
    argument: str
    """The name of the tool's argument."""
    kind: OptionKind
    """The type of a value; `json` for everything that is not a single value."""
    many: bool
    """True if the argument is a list of such values."""
    required: bool
    choices: tuple[str, ...]
    help: str


class ToolCommand(NamedTuple):
    """A command for a tool."""

    name: str
    tool: str
    help: str
    """The first line of the description."""
    description: str
    options: tuple[ToolOption, ...]


def tool_commands(tools: Sequence[Tool]) -> list[ToolCommand]:
    """A command for each tool, with a name of its own."""
    taken: set[str] = set()
    commands: list[ToolCommand] = []
    for tool in tools:
        name = _unique(_word(tool.name, "tool"), taken)
        text = one_line(tool.description or tool.title or "")
        first = one_line((tool.description or tool.title or "").strip().split("\n", 1)[0])
        commands.append(ToolCommand(name, tool.name, first, text, tuple(_options(tool.input_schema))))
    return commands


def one_line(text: str) -> str:
    """A text of a server in one line, with control characters escaped, and cut if it is long."""
    text = " ".join(printable(text).split())
    return text if len(text) <= MAX_HELP else text[: MAX_HELP - 1] + "…"


def _options(schema: dict[str, Any]) -> list[ToolOption]:
    properties: Any = schema.get("properties")
    required: Any = schema.get("required")
    taken = set(_RESERVED)
    options: list[ToolOption] = []
    for name, member in cast("dict[str, Any]", properties if isinstance(properties, dict) else {}).items():
        field = cast("dict[str, Any]", member if isinstance(member, dict) else {})
        kind, many, choices = _value(field, schema)
        options.append(
            ToolOption(
                flag="--" + _unique(_word(name, "argument").replace("_", "-"), taken),
                argument=name,
                kind=kind,
                many=many,
                required=name in required if isinstance(required, list) else False,
                choices=choices,
                help=_help(field),
            )
        )
    return options


def _value(field: dict[str, Any], root: dict[str, Any]) -> tuple[OptionKind, bool, tuple[str, ...]]:
    """The type of a value, whether there may be several, and the choices."""
    types = schema_types(field, root) - {"null"}
    if types == {"array"}:
        items = array_items(field, root)
        kind = _scalar(schema_types(items, root))
        # A list of booleans is rare, and `--flag true false` would have to be explained.
        return (kind, True, _choices(items)) if kind not in (None, "boolean") else ("json", False, ())
    kind = _scalar(types)
    return ("json", False, ()) if kind is None else (kind, False, _choices(field) if kind == "string" else ())


def _scalar(types: set[str]) -> OptionKind | None:
    if types == {"integer", "number"}:
        return "number"
    return next((kind for kind in _SCALARS if types == {kind}), None)


def _choices(field: dict[str, Any]) -> tuple[str, ...]:
    values: Any = field.get("enum")
    if not isinstance(values, list):
        return ()
    texts = [value for value in cast("list[Any]", values) if isinstance(value, str)]
    return tuple(texts) if len(texts) == len(cast("list[Any]", values)) else ()


def _help(field: dict[str, Any]) -> str:
    import msgspec

    text = one_line(str(field.get("description") or field.get("title") or ""))
    default: Any = field.get("default")
    if default in (None, "", [], {}):
        return text
    shown = one_line(default if isinstance(default, str) else msgspec.json.encode(default).decode())
    return f"{text} (default: {shown})".strip()


def _word(name: str, instead: str) -> str:
    """A name that can be typed in any shell."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-.")[:60] or instead


def _unique(name: str, taken: set[str]) -> str:
    found, number = name, 2
    while found in taken:
        found, number = f"{name}-{number}", number + 1
    taken.add(found)
    return found
