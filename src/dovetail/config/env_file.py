"""Files of `NAME=value` lines that `envFile` names, as VS Code and the programs before it read them."""

from __future__ import annotations

import re

_NAME = re.compile(r"[ \t]*(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_.-]*)[ \t]*=[ \t]*")
_QUOTED = re.compile(r"""(?:"((?:[^"\\]|\\.)*)"|'([^']*)'|`([^`]*)`)[ \t]*(?:\#[^\n]*)?(?=\n|\Z)""", re.DOTALL)
_NOTHING = re.compile(r"[ \t]*(?:\#[^\n]*)?(?=\n|\Z)")
_ESCAPES = {"n": "\n", "r": "\r", '"': '"', "\\": "\\"}
"""No others: a path of Windows keeps what looks like one."""


class EnvFileError(ValueError):
    """A line is none of `NAME=value`; `line` is its number."""

    def __init__(self, line: int, words: str = "this line is not of the form NAME=value") -> None:
        super().__init__(words)
        self.line = line


def parse_env(text: str) -> dict[str, tuple[str, int]]:
    """Each value with its line; of a name that stands there twice the last one counts, as in a shell.

    A value in quotes may go on over several lines.
    """
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    values: dict[str, tuple[str, int]] = {}
    at, line = 0, 1
    while at < len(text):
        begin = at
        if (nothing := _NOTHING.match(text, at)) is not None:
            at = nothing.end()
        elif (name := _NAME.match(text, at)) is None:
            raise EnvFileError(line)
        else:
            value, at = _value(text, name.end(), line)
            values[name[1]] = (value, line)
        at += 1  # the end of the line
        line += text.count("\n", begin, at)
    return values


def _value(text: str, at: int, line: int) -> tuple[str, int]:
    """A value, and where it ends."""
    quoted = _QUOTED.match(text, at)
    if quoted is not None:
        inner = quoted[1]
        if inner is None:
            return quoted[2] or quoted[3] or "", quoted.end()
        return re.sub(r"\\(.)", lambda each: _ESCAPES.get(each[1], each[0]), inner, flags=re.DOTALL), quoted.end()
    if text.startswith(('"', "'", "`"), at):
        raise EnvFileError(line, "this value begins with a quotation mark, and does not end with one")
    end = text.find("\n", at)
    raw = text[at : len(text) if end < 0 else end]
    return re.sub(r"(?:^|[ \t])#.*", "", raw).rstrip(), at + len(raw)
