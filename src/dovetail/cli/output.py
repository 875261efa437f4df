"""Output to stdout: tables and text for users, one JSON object for scripts."""

from __future__ import annotations

import importlib.util
import shutil
import sys
import textwrap
import unicodedata
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, cast

Style: TypeAlias = Literal["text", "json"]
Rows: TypeAlias = "Sequence[Sequence[str]]"

_GAP = "  "
_NARROW = 20
_BIDI = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""Bidirectional controls, which can make text look like other text."""


def printable(text: str) -> str:
    """Escape control characters, so that text cannot move the cursor, hide other text or set the title."""
    return "".join(_shown(char) for char in text.replace("\r\n", "\n"))


def width_of(text: str) -> int:
    """The number of terminal columns that a line takes."""
    return sum(_cells(char) for char in text)


def cut(text: str, room: int) -> str:
    """Truncate a line to a number of columns."""
    used = 0
    for place, char in enumerate(text):
        used += _cells(char)
        if used > room:
            return text[:place]
    return text


def show_json(value: Any) -> None:
    """Print a result for scripts, on one line."""
    import msgspec

    sys.stdout.write(msgspec.json.encode({"result": value}).decode() + "\n")
    sys.stdout.flush()


def show_text(text: str) -> None:
    """Print text; on a terminal with control characters escaped."""
    text = printable(text) if sys.stdout.isatty() else text
    sys.stdout.write(text if text.endswith("\n") else text + "\n")


def show_value(value: Any) -> None:
    """Print a JSON value for users: a list of flat objects as a table, anything else indented."""
    columns = _columns(value)
    if columns:
        show_table(None, columns, [[_cell(row.get(name)) for name in columns] for row in value])
        return
    import msgspec

    text = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    if _rich():
        from dovetail.cli.terminal.rich_output import print_json

        print_json(printable(text))
    else:
        show_text(text)


def show_table(title: str | None, columns: Sequence[str], rows: Rows) -> None:
    """Print a table; the last column is wrapped to the width that is left."""
    if sys.stdout.isatty():
        rows = [[printable(cell) for cell in row] for row in rows]
        columns = [printable(name) for name in columns]
    if _rich():
        from dovetail.cli.terminal.rich_output import print_table

        print_table(title, columns, rows)
        return
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    if title is not None:
        print(title)
    for line in _table(columns, rows, width):
        print(line)


def heading(text: str) -> str:
    """The first line of a text, for a table cell."""
    return text.strip().split("\n", 1)[0]


def _table(columns: Sequence[str], rows: Rows, width: int | None) -> list[str]:
    cells = [list(columns), *[[cell.replace("\n", " ") for cell in row] for row in rows]]
    widths = [max(width_of(row[index]) for row in cells) for index in range(len(columns))]
    indent = _GAP + "".join(" " * size + _GAP for size in widths[:-1])
    room = None if width is None else max(width - len(indent), _NARROW)
    lines: list[str] = []
    for row in cells:
        head = _GAP + "".join(
            cell + " " * (size - width_of(cell)) + _GAP for cell, size in zip(row, widths[:-1], strict=False)
        )
        last = [row[-1]] if room is None else textwrap.wrap(row[-1], room) or [""]
        lines += [(head if first == 0 else indent) + part for first, part in enumerate(last)]
    lines.insert(1, _GAP + _GAP.join("-" * size for size in _limited_widths(widths, room)))
    return [line.rstrip() for line in lines]


def _limited_widths(widths: list[int], room: int | None) -> list[int]:
    return widths if room is None else [*widths[:-1], min(widths[-1], room)]


def _cells(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def _columns(value: Any) -> list[str]:
    """The columns of a list of flat objects; empty for any other value."""
    names: dict[str, None] = {}
    for row in cast("list[Any]", value) if isinstance(value, list) else []:
        if not isinstance(row, dict):
            return []
        for name, cell in cast("dict[str, Any]", row).items():
            if isinstance(cell, (dict, list)):
                return []
            names[name] = None
    return list(names)


def _cell(value: Any) -> str:
    import msgspec

    if value is None:
        return ""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _rich() -> bool:
    """True if output is drawn with rich (from the extra `cli`): only on a terminal."""
    return sys.stdout.isatty() and importlib.util.find_spec("rich") is not None


def _shown(char: str) -> str:
    if char in "\n\t" or (char not in _BIDI and unicodedata.category(char) != "Cc"):
        return char
    return char.encode("unicode_escape").decode()
