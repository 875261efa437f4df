"""Files of `NAME=value` lines that `envFile` names."""

from __future__ import annotations

import re

_LINE = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_.-]*)\s*=\s*(.*?)\s*")
_QUOTED = re.compile(r"""(?:"((?:[^"\\]|\\.)*)"|'([^']*)')\s*(?:#.*)?""")
_COMMENT = re.compile(r"\s#.*")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}


class BadLine(ValueError):
    """A line is none of `NAME=value`; `line` is its number."""

    def __init__(self, line: int) -> None:
        super().__init__("this line is not of the form NAME=value")
        self.line = line


def parse_env(text: str) -> dict[str, tuple[str, int]]:
    """Each value with its line; of a name that stands there twice the last one counts, as in a shell."""
    found: dict[str, tuple[str, int]] = {}
    for number, line in enumerate(text.removeprefix("\ufeff").splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        pair = _LINE.fullmatch(line)
        if pair is None:
            raise BadLine(number)
        found[pair[1]] = (_value(pair[2]), number)
    return found


def _value(raw: str) -> str:
    quoted = _QUOTED.fullmatch(raw)
    if quoted is None:
        return _COMMENT.sub("", raw, count=1)
    if quoted[2] is not None:
        return quoted[2]
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), quoted[1])
