"""Text of servers for display: invisible and control characters are shown escaped."""

from __future__ import annotations

import textwrap
import unicodedata
from typing import Any

import msgspec

_TO_USER = (
    ("The user refused ", "You refused "),
    ("The user has switched off ", "You have switched off "),
    ("The user stopped ", "You stopped "),
    ("until the user approves it", "until you approve it"),
    ("waits for the user to let it start", "waits until you let it start"),
)
"""Words about the user in errors, and what is said to the user."""

MARGIN = "  | "
"""Precedes every line of a server, so that none of them looks like one of ours."""

_INVISIBLE_CATEGORIES = frozenset({"Cc", "Cf", "Co", "Cs", "Zl", "Zp"})
MAX_MARKS = 4
"""Combining marks on one letter that are drawn; a pile of them covers the lines around it."""
_MARK_CATEGORIES = frozenset({"Mn", "Me"})
_INVISIBLE_LETTERS = frozenset("\u115f\u1160\u3164\uffa0\u034f")
"""Letters and marks that are invisible."""


def exact(text: str) -> str:
    """Escape invisible characters, so that different texts look different, and marks that pile up on one letter."""
    shown: list[str] = []
    marks = 0
    for char in text:
        marks = marks + 1 if unicodedata.category(char) in _MARK_CATEGORIES else 0
        shown.append(_visible(char) if marks <= MAX_MARKS else _escaped(char))
    return "".join(shown)


def one_line(text: str) -> str:
    """Escape invisible characters and line breaks, for names and other text within a line."""
    return exact(text).replace("\n", "\\u000a").replace("\t", "\\u0009")


def quoted(name: str) -> str:
    """A name of a server, tool or prompt in quotes: whoever chose it cannot write the rest of a sentence of ours."""
    return '"' + one_line(name).replace('"', '\\"') + '"'


def as_json(value: Any) -> str:
    """A JSON value over several lines, escaped and never truncated."""
    return exact(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def command_line(words: tuple[str, ...]) -> str:
    """A command with shell quoting, never truncated."""
    import shlex

    return one_line(shlex.join(words))


def indented(text: str, margin: str = MARGIN) -> str:
    """Add a margin to every line."""
    return "\n".join(margin + line for line in exact(text).split("\n"))


def wrapped(text: str, width: int, margin: str = MARGIN) -> str:
    """Wrap text to the terminal."""
    room = max(width - len(margin) - 1, 20)
    lines = (textwrap.wrap(line, room, break_on_hyphens=False) or [""] for line in exact(text).strip().split("\n"))
    return "\n".join(margin + part for line in lines for part in line)


def rule(title: str, width: int) -> str:
    """A horizontal rule with a title."""
    head = f"── {one_line(title)} "
    return head + "─" * max(min(width, 80) - len(head) - 1, 2)


def addressed_to_user(text: str) -> str:
    """An error of the host, which speaks of the user, for that user."""
    for about, to in _TO_USER:
        text = text.replace(about, to)
    return text


def counted(number: int, thing: str) -> str:
    """A number and a noun."""
    return f"{number} {thing}{'' if number == 1 else 's'}"


def shortened(text: str, room: int) -> str:
    """Text on one line, truncated with an ellipsis."""
    line = " ".join(exact(text).split())
    return line if len(line) <= room else line[: max(room - 1, 1)] + "…"


def _visible(char: str) -> str:
    if char in "\n\t" or (char not in _INVISIBLE_LETTERS and unicodedata.category(char) not in _INVISIBLE_CATEGORIES):
        return char
    return _escaped(char)


def _escaped(char: str) -> str:
    code = ord(char)
    # As JSON writes it, where JSON has such a form.
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
