"""Markdown that arrives piece by piece, cut into blocks: what is complete never changes again.

A block is complete when the next one begins (CommonMark closes a block for good then). The lines of fenced code are
complete one by one. The text that is not complete is bounded, so that the work per piece does not grow with the answer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

MAX_OPEN = 8_000
"""Characters of an incomplete block; a longer one is cut at the end of a line or word."""
MAX_OPEN_LINES = 60

_FENCE = re.compile(r"(`{3,}|~{3,})[ \t]*([^`\n]*)$")
_TABLE_RULE = re.compile(r"[ \t]*\|?[ \t]*:?-+:?[ \t]*(\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$")


@dataclass(frozen=True)
class TextBlock:
    """A complete block of Markdown: a paragraph, a list, a table or a heading."""

    text: str


@dataclass(frozen=True)
class CodeLine:
    """A complete line of fenced code."""

    text: str
    language: str
    first: bool = False


Block = TextBlock | CodeLine


class BlockSplitter:
    """Cuts a stream of Markdown into blocks."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        """Complete lines of the open block."""
        self._partial = ""
        self._fence = ""
        self._language = ""
        self._begins_code = False

    @property
    def open_block(self) -> Block | None:
        """The block that is not complete, as it is now."""
        if self._fence:
            begun = self._partial and not _closes(self._partial, self._fence)
            return CodeLine(self._partial, self._language, self._begins_code) if begun else None
        text = "\n".join([*self._lines, self._partial])
        return TextBlock(text) if text.strip() else None

    def feed(self, text: str) -> list[Block]:
        """Take the next piece; the blocks that are now complete."""
        *lines, self._partial = (self._partial + text).split("\n")
        blocks = [block for line in lines for block in self._line(line)]
        if lines:
            blocks += self._complete_blocks()
        if len(self._partial) > MAX_OPEN:
            cut = self._partial.rfind(" ", 0, MAX_OPEN) + 1 or MAX_OPEN
            line, self._partial = self._partial[:cut], self._partial[cut:]
            blocks += self._line(line)
            blocks += self._complete()
        return blocks

    def flush(self) -> list[Block]:
        """Complete what is open, because other output comes between; code goes on as code afterwards."""
        partial, self._partial = self._partial, ""
        blocks = self._line(partial) if partial else []
        return blocks + self._complete()

    def reset(self) -> None:
        """Forget that code was open: the answer has ended."""
        self._fence = ""

    def _line(self, line: str) -> list[Block]:
        if self._fence:
            if _closes(line, self._fence):
                self._fence = ""
                return []
            first, self._begins_code = self._begins_code, False
            return [CodeLine(line, self._language, first)]
        if opening := _FENCE.match(line):
            blocks = self._complete()
            self._fence, self._language, self._begins_code = opening[1], opening[2].partition(" ")[0].strip(), True
            return blocks
        if self._lines or line.strip():
            self._lines.append(line)
        return []

    def _complete_blocks(self) -> list[Block]:
        """Complete all blocks but the last."""
        starts = self._starts()
        blocks = self._taken(starts[-1]) if len(starts) > 1 else []
        if len(self._lines) > MAX_OPEN_LINES or sum(map(len, self._lines)) > MAX_OPEN:
            header = self._lines[:2]
            blocks += self._taken(len(self._lines))
            if "|" in header[0] and len(header) > 1 and _TABLE_RULE.match(header[1]):
                self._lines = header  # the table goes on
        return blocks

    def _complete(self) -> list[Block]:
        return self._taken(len(self._lines))

    def _taken(self, end: int) -> list[Block]:
        """Take the lines up to there as blocks."""
        cuts = [*(start for start in self._starts() if start < end), end]
        texts = ["\n".join(self._lines[begin:until]).strip("\n") for begin, until in pairwise(cuts)]
        del self._lines[:end]
        return [TextBlock(text) for text in texts if text.strip()]

    def _starts(self) -> list[int]:
        """The first line of each block."""
        tokens = _parser().parse("\n".join(self._lines))
        return [0, *(token.map[0] for token in tokens if token.map and not token.level and token.map[0])]


def _closes(line: str, fence: str) -> bool:
    ended = line.strip(" \t")
    return len(ended) >= len(fence) and set(ended) == {fence[0]} and len(line) - len(line.lstrip(" ")) <= 3


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt().enable("table").disable("inline")
