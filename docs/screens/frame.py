"""One picture of a terminal: lines of coloured text and the cursor, as values that can be compared."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import pyte


class Style(NamedTuple):
    """The look of a piece of text; colours are names of the 16 of a terminal, or six hexadecimal digits."""

    fg: str = "default"
    bg: str = "default"
    bold: bool = False
    dim: bool = False
    italic: bool = False
    underline: bool = False
    strike: bool = False


class Run(NamedTuple):
    """Neighbouring characters of one style."""

    column: int
    cells: int
    text: str
    style: Style


@dataclass(frozen=True)
class Line:
    """A line of a terminal, and the column of the cursor if it is there."""

    runs: tuple[Run, ...] = ()
    cursor: int | None = None

    @property
    def text(self) -> str:
        """The characters without their look."""
        shown = ""
        for run in self.runs:
            shown = shown.ljust(run.column) + run.text
        return shown


@dataclass(frozen=True)
class Frame:
    """The content of a terminal at one moment."""

    columns: int
    lines: tuple[Line, ...]

    @property
    def text(self) -> str:
        """The characters, without blank lines at the end."""
        return "\n".join(line.text for line in self.lines).rstrip()

    def replaced(self, pattern: str, text: str, *, aligned: bool = False) -> Frame:
        """The frame with what differs from run to run (times, paths) replaced, within pieces of one style.

        With `aligned`, the new text ends where the old one ended.
        """

        def changed(run: Run) -> Run:
            new = re.sub(pattern, lambda found: text.rjust(len(found[0])) if aligned else text, run.text)
            return run if new == run.text else run._replace(text=new, cells=run.cells + len(new) - len(run.text))

        return replace(self, lines=tuple(replace(line, runs=tuple(map(changed, line.runs))) for line in self.lines))


def capture(screen: pyte.Screen) -> Frame:
    """The frame that a screen of pyte shows; text that blinks is taken as dim."""
    cursor = None if screen.cursor.hidden else (screen.cursor.y, screen.cursor.x)
    lines = (
        Line(tuple(_runs(screen, row)), cursor[1] if cursor is not None and cursor[0] == row else None)
        for row in range(screen.lines)
    )
    return Frame(screen.columns, tuple(lines))


def _runs(screen: pyte.Screen, row: int) -> Iterator[Run]:
    """The pieces of a line; blanks belong to the word before them, and are left out at the end of a piece."""
    column, cells, text, style = 0, 0, "", Style()
    for place in range(screen.columns):
        char = screen.buffer[row][place]
        look = _style(char)
        if char.data == " " and look.bg == style.bg and not (_is_lined(look) or _is_lined(style)):
            look = style
        if look != style:
            yield from _trimmed(Run(column, cells, text, style))
            column, cells, text, style = place, 0, "", look
        cells += 1
        text += char.data  # empty behind a character of two cells
    yield from _trimmed(Run(column, cells, text, style))


def _trimmed(run: Run) -> Iterator[Run]:
    text = run.text
    if run.style.bg == "default" and not _is_lined(run.style):
        text = text.rstrip(" ")
    if text:
        yield run._replace(text=text, cells=run.cells - (len(run.text) - len(text)))


def _is_lined(style: Style) -> bool:
    return style.underline or style.strike


def _style(char: pyte.screens.Char) -> Style:
    fg, bg = (char.bg, char.fg) if char.reverse else (char.fg, char.bg)
    if char.reverse:
        fg, bg = "background" if fg == "default" else fg, "foreground" if bg == "default" else bg
    return Style(fg, bg, char.bold, char.blink, char.italics, char.underscore, char.strikethrough)
