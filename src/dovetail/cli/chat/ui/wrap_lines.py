"""Lines that are longer than the terminal is wide: they go on under their own margin.

A terminal would go on at its left edge, where nothing but our own lines may begin.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from dovetail.cli.output import printable, width_of

from .colours import Part, Tone

_MARGIN = re.compile(r"( *)(\| |[<!~+*x] )?")
_DEEP = "    "
_TAB = 8
_NARROW = 20


def folded(parts: Sequence[Part], width: int) -> list[Part]:
    """The same parts with line breaks, and after them margins, where the terminal would break them."""
    pieces: list[tuple[Tone, str]] = [
        ("plain", printable(part)) if isinstance(part, str) else (part[0], printable(part[1])) for part in parts
    ]
    whole = "".join(text for _, text in pieces)
    width = max(width, _NARROW)
    if whole.isascii() and "\t" not in whole and all(len(line) <= width for line in whole.split("\n")):
        return list(pieces)
    return _broken(pieces, _edges(whole, width))


def _edges(whole: str, width: int) -> dict[int, str]:
    """Where lines are to be broken, each with the margin of what comes after it."""
    edges: dict[int, str] = {}
    begin = 0
    for line in whole.split("\n"):
        margin = _margin(line, width)
        edges |= {begin + place: margin for place in _places(line, width, len(margin))}
        begin += len(line) + 1
    return edges


def _places(line: str, width: int, margin: int) -> Iterator[int]:
    """Where one line is broken: after the last blank where that leaves little room, else in the middle of a word."""
    column, blank, at_blank = 0, 0, 0
    for place, char in enumerate(line):
        room = _TAB - column % _TAB if char == "\t" else width_of(char)
        if column + room > width:
            soft = at_blank > width * 3 // 4
            yield blank if soft else place
            column = margin + (column - at_blank if soft else 0)
            at_blank = 0
        column += room
        if char == " ":
            blank, at_blank = place + 1, column


def _broken(pieces: Sequence[tuple[Tone, str]], edges: Mapping[int, str]) -> list[Part]:
    made: list[Part] = []
    begin = 0
    for tone, text in pieces:
        places = [place - begin for place in edges if begin <= place < begin + len(text)]
        cuts = [0, *places, len(text)]
        words = [text[first:last] for first, last in pairwise(cuts)]
        margins = ["", *(f"\n{edges[begin + place]}" for place in places)]
        made.append((tone, "".join(margin + word for margin, word in zip(margins, words, strict=True))))
        begin += len(text)
    return made


def _margin(line: str, width: int) -> str:
    """What stands before the rest of a line that is folded."""
    found = _MARGIN.match(line)
    assert found is not None
    blanks, mark = found[1], found[2] or ""
    margin = blanks + (mark if mark == "| " else " " * len(mark))
    return margin if 0 < len(margin) <= width // 2 else _DEEP
