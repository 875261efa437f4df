"""Streamed text of a model on its way to the terminal: as it is, wrapped at words, or drawn as Markdown."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Protocol

from dovetail.cli.output import printable, width_of

if TYPE_CHECKING:
    from dovetail.cli.terminal.progress import ProgressDisplay

    from .markdown_stream import MarkdownStream

_WORD = re.compile(r"\n|[^\S\n]+|\S+")


class StreamedText(Protocol):
    """Text that arrives piece by piece; each method returns what is to be written now."""

    @property
    def is_open(self) -> bool:
        """True if other output cannot follow without `flush`."""
        ...

    def feed(self, text: str, width: int | None) -> str:
        """Take the next piece."""
        ...

    def flush(self, width: int | None) -> str:
        """End the line or the block, because other output follows."""
        ...

    def reset(self) -> None:
        """Begin with another text."""
        ...


class PlainText:
    """Text as it is; with a width, lines are broken between words."""

    def __init__(self) -> None:
        self._column = 0
        self._word = ""
        """The word at the end, which may not be complete."""

    @property
    def is_open(self) -> bool:
        """True in the middle of a line."""
        return bool(self._column or self._word)

    def feed(self, text: str, width: int | None) -> str:
        """Take the next piece."""
        if width is None:
            self._column = 0 if text.endswith("\n") else 1
            return printable(text)
        pieces = _WORD.findall(self._word + printable(text))
        self._word = pieces.pop() if pieces and not pieces[-1].isspace() and len(pieces[-1]) < width else ""
        return "".join(self._placed(piece, width) for piece in pieces)

    def flush(self, width: int | None) -> str:
        """End the line."""
        word, self._word = self._word, ""
        said = self._placed(word, width) if word and width is not None else ""
        self._column = 0
        return said + "\n"

    def reset(self) -> None:
        """Nothing to forget."""

    def _placed(self, piece: str, width: int) -> str:
        room = width_of(piece)
        if piece == "\n":
            self._column = 0
        elif self._column and self._column + room > width:
            self._column = 0 if piece.isspace() else room
            return "\n" if piece.isspace() else f"\n{piece}"
        else:
            self._column += room
        return piece


class MarkdownText:
    """Markdown: complete blocks are written once, the open one is redrawn at the bottom of the terminal."""

    def __init__(self, display: ProgressDisplay) -> None:
        self._display = display
        self._markdown: MarkdownStream | None = None
        self._width = 80

    @property
    def is_open(self) -> bool:
        """True if a block is open."""
        return self._markdown is not None and self._markdown.is_open

    def feed(self, text: str, width: int | None) -> str:
        """Take the next piece."""
        from .markdown_stream import MarkdownStream  # imports rich

        if self._markdown is None:
            self._markdown = MarkdownStream()
            self._display.open_lines = self._open_lines
        self._width = width or self._width
        lines = self._markdown.feed(text, self._width)
        if not lines:
            self._display.update()
        return _joined(lines)

    def flush(self, width: int | None) -> str:
        """Complete the open block."""
        self._width = width or self._width
        return _joined([] if self._markdown is None else self._markdown.flush(self._width))

    def reset(self) -> None:
        """Begin with another text."""
        if self._markdown is not None:
            self._markdown.reset()

    def _open_lines(self) -> list[str]:
        return [] if self._markdown is None else self._markdown.open_lines(self._width)


def streamed_text(display: ProgressDisplay) -> StreamedText:
    """Markdown where lines can be redrawn and rich is installed, else plain text."""
    import importlib.util

    return MarkdownText(display) if display.is_live and importlib.util.find_spec("rich") else PlainText()


def _joined(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
