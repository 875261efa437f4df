"""Colours, if the terminal supports them and the user wants them."""

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


class Colorizer:
    """Adds colour codes to text, if enabled."""

    def __init__(self, enabled: bool) -> None:
        self._enabled = enabled

    def line(self, *parts: Part) -> str:
        """Join the parts, with control characters escaped and colours added."""
        return "".join(self._part(*(("plain", part) if isinstance(part, str) else part)) for part in parts)

    def _part(self, tone: Tone, text: str) -> str:
        code = _CODES[tone] if self._enabled else ""
        safe = printable(text)
        return f"\x1b[{code}m{safe}\x1b[0m" if code and safe else safe


def wants_colour(environ: Mapping[str, str], terminal: bool) -> bool:
    """True if colours are used: on a terminal that supports them, unless NO_COLOR is set (https://no-color.org)."""
    return terminal and not environ.get("NO_COLOR") and environ.get("TERM", "dumb") != "dumb"
