"""Texts of servers as a person sees them: nothing hidden, nothing that plays with the terminal."""

from __future__ import annotations

import textwrap
import unicodedata
from typing import Any

import msgspec

MARGIN = "  | "
"""Stands before every line that a server wrote, so that none of them looks like ours."""

_UNSEEN = frozenset({"Cc", "Cf", "Co", "Cs", "Zl", "Zp"})
_BLANK = frozenset("\u115f\u1160\u3164\uffa0\u034f")
"""Letters and marks that look like nothing."""


def exact(text: str) -> str:
    """The text with every character that cannot be seen written out, so that two texts that differ look different."""
    return "".join(_visible(char) for char in text)


def one_line(text: str) -> str:
    """The same where a name stands, or anything else that must not begin a line of its own."""
    return exact(text).replace("\n", "\\u000a").replace("\t", "\\u0009")


def as_json(value: Any) -> str:
    """A JSON value over several lines, whole and exact."""
    return exact(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def command_line(words: tuple[str, ...]) -> str:
    """A command as a shell would take it, whole."""
    import shlex

    return one_line(shlex.join(words))


def indented(text: str, margin: str = MARGIN) -> str:
    """Every line with a margin; no line is cut."""
    return "\n".join(margin + line for line in exact(text).split("\n"))


def wrapped(text: str, width: int, margin: str = MARGIN) -> str:
    """A text in words, wrapped to the terminal."""
    room = max(width - len(margin) - 1, 20)
    lines = (textwrap.wrap(line, room, break_on_hyphens=False) or [""] for line in exact(text).strip().split("\n"))
    return "\n".join(margin + part for line in lines for part in line)


def rule(title: str, width: int) -> str:
    """A line across the terminal with words in it."""
    head = f"── {one_line(title)} "
    return head + "─" * max(min(width, 80) - len(head) - 1, 2)


def counted(number: int, thing: str) -> str:
    """So many things."""
    return f"{number} {thing}{'' if number == 1 else 's'}"


def shortened(text: str, room: int) -> str:
    """A text on one line that says so where something is left out."""
    line = " ".join(exact(text).split())
    return line if len(line) <= room else line[: max(room - 1, 1)] + "…"


def _visible(char: str) -> str:
    if char in "\n\t" or (char not in _BLANK and unicodedata.category(char) not in _UNSEEN):
        return char
    code = ord(char)
    # As JSON writes it, where JSON has such a form.
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
