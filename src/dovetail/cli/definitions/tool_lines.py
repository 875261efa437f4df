"""Tools as lines of text: the signature with types, and the whole definition."""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from dovetail.cli.chat.ui.colours import Colorizer, Part, wants_colour
from dovetail.schema.type_text import arguments, named_types, signature, type_text

if TYPE_CHECKING:
    from dovetail.types.tools import Tool, ToolAnnotations

Line: TypeAlias = "Sequence[Part]"

_NARROW = 20
_FURTHER = " " * 8
"""Indent of the further lines of a signature, deeper than that of the description below."""
_TIE = "\x1f"
"""Stands for a space at which a line must not break."""
_ARGUMENT_START = re.compile(f"(,){_TIE}(?=[^{_TIE}]*:)")
_HINTS = {
    "read_only_hint": ("read-only", "changes things"),
    "destructive_hint": ("destructive", "not destructive"),
    "idempotent_hint": ("idempotent", "not idempotent"),
    "open_world_hint": ("reaches other systems", "reaches no other system"),
}


def summary_lines(tool: Tool, width: int | None, note: str = "") -> list[Line]:
    """The signature of a tool and the first line of its description, with a note; a width of None has no limit."""
    about = (tool.description or tool.title or "").strip().split("\n", 1)[0]
    return [*_signature(tool, width, "  "), *wrapped_lines(f"{about} {note}", width, "      ")]


def full_lines(tool: Tool, width: int | None) -> list[Line]:
    """Everything that a definition says, but its schemas as JSON."""
    lines: list[Line] = _signature(tool, width, "")
    if tool.title:
        lines.append((f"  title: {_one_line(tool.title)}",))
    lines += wrapped_lines(tool.description or "It has no description.", width, "  ")
    if listed := arguments(tool.input_schema):
        lines += heading("Arguments")
        for argument in listed:
            state = ", required" if argument.required else ""
            default = "" if argument.default is None else f", default {argument.default}"
            lines.append(("  ", ("name", _one_line(argument.name)), _one_line(f": {argument.type}{state}{default}")))
            lines += wrapped_lines(argument.description, width, "      ")
    if tool.output_schema is not None:
        lines += [*heading("Returns"), (f"  {_one_line(type_text(tool.output_schema))}",)]
    schemas = (tool.input_schema, tool.output_schema or {})
    if types := list(dict.fromkeys(text for schema in schemas for text in named_types(schema))):
        lines += heading("Types")
        lines += [(part,) for text in types for part in _wrapped(_one_line(text), width, "  ", _FURTHER)]
    if hints := _hints(tool.annotations):
        lines += [*heading("Hints"), (f"  {', '.join(hints)}",)]
    return lines


def heading(title: str) -> list[Line]:
    """The title of a part, after an empty line."""
    return [("",), (("strong", title),)]


def schema_lines(title: str, schema: dict[str, Any] | None) -> list[Line]:
    """A schema as indented JSON, under a title."""
    if schema is None:
        return [*heading(title), ("  none",)]
    import msgspec

    text = msgspec.json.format(msgspec.json.encode(schema), indent=2).decode()
    return [*heading(title), *[(f"  {line}",) for line in text.split("\n")]]


def wrapped_lines(text: str, width: int | None, margin: str) -> list[Line]:
    """Text wrapped to a width; no lines for an empty text."""
    stripped = text.strip()
    return [(part,) for line in stripped.split("\n") for part in _wrapped(line, width, margin)] if stripped else []


def print_lines(lines: Sequence[Line]) -> None:
    """Print lines to stdout, in colours on a terminal."""
    from dovetail.cli import output

    if not sys.stdout.isatty():
        plain = ("".join(part if isinstance(part, str) else part[1] for part in line) for line in lines)
        output.show_text("\n".join(plain))
        return
    colorizer = Colorizer(wants_colour(os.environ, terminal=True))
    sys.stdout.write("".join(colorizer.line(*line) + "\n" for line in lines))


def output_width() -> int | None:
    """Columns of the terminal on stdout; None for a pipe or a file, whose lines are not wrapped."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def _signature(tool: Tool, width: int | None, margin: str) -> list[Line]:
    text = _one_line(signature(tool.name, tool.input_schema, tool.output_schema))
    name = _one_line(tool.name)
    first, *rest = _wrapped(text, width, margin, _FURTHER)
    return [(margin, ("name", name), first[len(margin) + len(name) :]), *[(line,) for line in rest]]


def _wrapped(text: str, width: int | None, margin: str, further: str = "") -> list[str]:
    """Wrap text; if `further` is given, it is a signature, which breaks between its arguments."""
    if width is None:
        return [margin + text]
    room = max(width - 1, len(margin) + len(further) + _NARROW)
    tied = _ARGUMENT_START.sub(r"\1 ", text.replace(" ", _TIE)) if further else text
    made = textwrap.wrap(
        tied, room, initial_indent=margin, subsequent_indent=margin + further, break_on_hyphens=False, tabsize=4
    )
    return [line.replace(_TIE, " ") for line in made] or [margin]


def _hints(annotations: ToolAnnotations | None) -> list[str]:
    return [
        words[0 if value else 1]
        for field, words in _HINTS.items()
        if (value := getattr(annotations, field, None)) is not None
    ]


def _one_line(text: str) -> str:
    return text.replace("\n", " ").replace("\r", " ")
