"""Colours, where a terminal has them and the person wants them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from dovetail.cli.output import printable

Tone: TypeAlias = Literal["plain", "dim", "strong", "name", "good", "warn", "bad"]
Part: TypeAlias = "str | tuple[Tone, str]"

_CODES: dict[Tone, str] = {
    "plain": "",
    "dim": "2",
    "strong": "1",
    "name": "36",
    "good": "32",
    "warn": "33",
    "bad": "1;31",
}


class Paint:
    """Puts colours around texts, or does not."""

    def __init__(self, on: bool) -> None:
        self._on = on

    def line(self, *parts: Part) -> str:
        """The parts as one text that can do nothing to a terminal but show colours."""
        return "".join(self._part(*(("plain", part) if isinstance(part, str) else part)) for part in parts)

    def _part(self, tone: Tone, text: str) -> str:
        code = _CODES[tone] if self._on else ""
        safe = printable(text)
        return f"\x1b[{code}m{safe}\x1b[0m" if code and safe else safe


def wants_colour(environ: Mapping[str, str], terminal: bool) -> bool:
    """Whether to colour: a terminal that can, and nobody who said no (https://no-color.org)."""
    return terminal and not environ.get("NO_COLOR") and environ.get("TERM", "dumb") != "dumb"
