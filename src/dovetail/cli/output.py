"""Output to stdout: tables and text for users, one JSON object for scripts."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import shutil
import sys
import textwrap
import unicodedata
from collections.abc import Generator, Sequence
from typing import IO, Any, Literal, TypeAlias, cast

Style: TypeAlias = Literal["text", "json"]
Rows: TypeAlias = "Sequence[Sequence[str]]"

_GAP = "  "
_NARROW = 10
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

    sys.stdout.write(encodable_json(msgspec.json.encode({"result": value}).decode(), sys.stdout) + "\n")
    sys.stdout.flush()


def show_text(text: str) -> None:
    """Print text; on a terminal with control characters escaped."""
    text = printable(text) if sys.stdout.isatty() else text
    sys.stdout.write(text if text.endswith("\n") else text + "\n")


def show_value(value: Any) -> None:
    """Print a JSON value for users: a list of flat objects as a table, anything else indented."""
    lines = table_lines(value, shutil.get_terminal_size().columns if sys.stdout.isatty() else None)
    if lines is not None:
        show_text("\n".join(lines))
        return
    import msgspec

    text = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    if _rich():
        from dovetail.cli.terminal.rich_output import print_json

        print_json(printable(text))
    else:
        show_text(encodable_json(text, sys.stdout))


def table_lines(value: Any, width: int | None) -> list[str] | None:
    """A list of flat objects as the lines of a table, the first two being its head; None for any other value."""
    columns = _columns(value)
    if not columns:
        return None
    rows = [[printable(_cell(row.get(name))) for name in columns] for row in value]
    return _table([printable(name) for name in columns], rows, width)


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


def encodable_json(text: str, stream: IO[str]) -> str:
    """JSON with escapes for the characters that the stream's encoding lacks: still JSON, with the same value."""
    try:
        text.encode(getattr(stream, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        import json

        # Outside of strings JSON is ASCII, so every other character is in a string.
        return "".join(char if char.isascii() else json.dumps(char)[1:-1] for char in text)
    return text


@contextlib.contextmanager
def stdout_to_file(path: str) -> Generator[None]:
    """Write stdout to a file, in UTF-8.

    The file is opened before anything is done, and truncated with the first output: if the command fails without
    output, a file that was there is as before, and no new one stays.
    """
    from .exit_status import USAGE, CommandFailed

    existed = os.path.exists(path)
    try:
        raw = _OutputFile(os.open(path, os.O_WRONLY | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666), "wb")
    except OSError as problem:
        raise CommandFailed("usage", f"{path} cannot be written: {problem.strerror}", USAGE) from None
    before = sys.stdout
    sys.stdout = io.TextIOWrapper(io.BufferedWriter(raw), encoding="utf-8", errors="backslashreplace")
    try:
        yield
        sys.stdout.flush()
        raw.truncate_once()
    finally:
        sys.stdout.close()
        sys.stdout = before
        if not existed and not raw.begun:
            os.unlink(path)


def plain_terminal() -> bool:
    """True if the terminal understands no escape sequences."""
    return os.environ.get("TERM") == "dumb"


def heading(text: str) -> str:
    """The first line of a text, for a table cell."""
    return text.strip().split("\n", 1)[0]


class _OutputFile(io.FileIO):
    """A file that is truncated with its first output."""

    begun = False

    def write(self, data: Any, /) -> int | None:
        """Write, into an empty file."""
        self.truncate_once()
        return super().write(data)

    def truncate_once(self) -> None:
        """Empty the file if nothing has been written yet."""
        if not self.begun:
            self.begun = True
            with contextlib.suppress(OSError):  # a pipe or a device
                self.truncate(0)


def _table(columns: Sequence[str], rows: Rows, width: int | None) -> list[str]:
    cells = [list(columns), *[[cell.replace("\n", " ") for cell in row] for row in rows]]
    widths = [max(width_of(row[index]) for row in cells) for index in range(len(columns))]
    if width is not None:
        widths = _limited_widths(widths, width - len(_GAP) * len(widths))
    lines: list[str] = []
    for row in cells:
        parts = [_wrapped(cell, size) for cell, size in zip(row, widths, strict=True)]
        for place in range(max(map(len, parts))):
            texts = [part[place] if place < len(part) else "" for part in parts]
            padded = (text + " " * (size - width_of(text)) for text, size in zip(texts, widths, strict=True))
            lines.append((_GAP + _GAP.join(padded)).rstrip())
        if row is cells[0]:
            lines.append(_GAP + _GAP.join("-" * size for size in widths))
    return lines


def _limited_widths(widths: list[int], room: int) -> list[int]:
    """Take from the widest columns what does not fit."""
    widths = list(widths)
    while sum(widths) > room and (widest := max(widths)) > _NARROW:
        widths[widths.index(widest)] -= 1
    return widths


def _wrapped(cell: str, size: int) -> list[str]:
    if width_of(cell) <= size:
        return [cell]
    return textwrap.wrap(cell, size) or [""]


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
    """True if output is drawn with rich (from the extra `cli`): only on a terminal that has colours."""
    return sys.stdout.isatty() and not plain_terminal() and importlib.util.find_spec("rich") is not None


def _shown(char: str) -> str:
    if char in "\n\t" or (char not in _BIDI and unicodedata.category(char) != "Cc"):
        return char
    return char.encode("unicode_escape").decode()
