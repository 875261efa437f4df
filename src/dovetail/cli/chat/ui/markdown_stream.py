"""Markdown drawn with rich while it streams in."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from functools import cache
from io import StringIO
from typing import TYPE_CHECKING, Any

from dovetail.cli.output import printable

from .markdown_blocks import Block, BlockSplitter, CodeLine, TextBlock

if TYPE_CHECKING:
    from markdown_it.token import Token
    from rich.console import Console, RenderableType

_CONTEXT = 30
"""Lines of code before a line that are highlighted with it, so that a string over several lines looks like one."""
_CODE_MARGIN = 2
_ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
_BLANKS = re.compile(r" +((?:\x1b\[0m)?)$")
"""Blanks with which rich fills a line."""
_STYLES = {
    "markdown.h1": "bold underline",
    "markdown.h2": "bold",
    "markdown.h3": "bold italic",
    "markdown.h4": "italic",
    "markdown.code": "cyan",
    "markdown.link": "none",
    "markdown.link_url": "blue underline",
    "markdown.block_quote": "dim",
    "markdown.item.bullet": "cyan",
    "markdown.item.number": "cyan",
    "markdown.table.border": "bright_black",
    "markdown.table.header": "bold",
    "markdown.hr": "bright_black",
}


class MarkdownStream:
    """Lines of a terminal from pieces of Markdown: those that stay, and those of the block that is still open."""

    def __init__(self) -> None:
        self._blocks = BlockSplitter()
        self._renderer: MarkdownRenderer | None = None
        self._code: deque[str] = deque(maxlen=_CONTEXT)
        self._is_first = True
        self._in_code = False

    @property
    def is_open(self) -> bool:
        """True if a block is open."""
        return self._blocks.open_block is not None

    def feed(self, text: str, width: int) -> list[str]:
        """Take the next piece; the lines that stay."""
        return self._lines(self._blocks.feed(printable(text)), width)

    def flush(self, width: int) -> list[str]:
        """Complete the open block, because other output comes between."""
        return self._lines(self._blocks.flush(), width)

    def reset(self) -> None:
        """Begin with another answer."""
        self._blocks.reset()
        self._is_first = True
        self._in_code = False

    def open_lines(self, width: int) -> list[str]:
        """The open block as it looks now."""
        block = self._blocks.open_block
        return [] if block is None else [*self._gap(block), *self._rendered([block], width)]

    def _lines(self, blocks: list[Block], width: int) -> list[str]:
        made: list[str] = []
        for together in _grouped(blocks):
            made += [*self._gap(together[0]), *self._rendered(together, width)]
            self._is_first = False
            self._in_code = isinstance(together[0], CodeLine)
            self._code.extend(block.text for block in together if isinstance(block, CodeLine))
        return made

    def _gap(self, block: Block) -> list[str]:
        """An empty line between blocks, not between lines of code."""
        goes_on = isinstance(block, CodeLine) and not block.first and self._in_code
        return [] if self._is_first or goes_on else [""]

    def _rendered(self, blocks: list[Block], width: int) -> list[str]:
        if self._renderer is None or self._renderer.width != width:
            self._renderer = MarkdownRenderer(width)
        first = blocks[0]
        if isinstance(first, TextBlock):
            return self._renderer.text(first.text)
        if first.first:
            self._code.clear()
        return self._renderer.code([*self._code], [block.text for block in blocks], first.language)


def _grouped(blocks: list[Block]) -> Iterator[list[Block]]:
    """Lines of the same code together, for they are highlighted together; other blocks one by one."""
    together: list[Block] = []
    for block in blocks:
        if together and not (isinstance(together[0], CodeLine) and isinstance(block, CodeLine) and not block.first):
            yield together
            together = []
        together.append(block)
    if together:
        yield together


class MarkdownRenderer:
    """Draws blocks of Markdown for a terminal of a given width."""

    def __init__(self, width: int) -> None:
        from rich.console import Console
        from rich.theme import Theme

        self.width = width
        # NO_COLOR and the number of colours are read from the environment.
        self._console: Console = Console(
            file=StringIO(), force_terminal=True, width=width, theme=Theme(_STYLES), highlight=False, emoji=False
        )

    def text(self, text: str) -> list[str]:
        """The lines of a block."""
        from rich.markdown import Markdown

        markdown = Markdown(text, hyperlinks=False, code_theme="ansi_dark")  # addresses are shown, never hidden
        markdown.elements = {**Markdown.elements, **_elements()}  # pyright: ignore[reportAttributeAccessIssue]
        for token in _all_tokens(markdown.parsed):
            # Entities such as &#8238; have become characters.
            token.content = printable(token.content)
            token.attrs = {
                name: printable(value) if isinstance(value, str) else value for name, value in token.attrs.items()
            }
        lines = self._drawn(markdown)
        while lines and not _ESCAPE.sub("", lines[0]).strip():
            lines.pop(0)
        while lines and not _ESCAPE.sub("", lines[-1]).strip():
            lines.pop()
        return lines

    def code(self, before: list[str], code: list[str], language: str) -> list[str]:
        """Lines of code, highlighted with the lines before them; a long line goes on below."""
        from rich.padding import Padding
        from rich.syntax import Syntax
        from rich.text import Text

        syntax = Syntax("", language or "text", theme="ansi_dark", background_color="default")
        lines = list(syntax.highlight("\n".join([*before, *code])).split("\n", allow_blank=True))
        made: list[str] = []
        for place, written in enumerate(code, start=len(before)):
            line = lines[place] if place < len(lines) else Text(written)
            line.rstrip()
            line.expand_tabs(4)
            line.no_wrap, line.overflow = False, "fold"
            made += self._drawn(Padding(line, (0, 0, 0, _CODE_MARGIN)))
        return made

    def _drawn(self, renderable: RenderableType) -> list[str]:
        with self._console.capture() as captured:
            self._console.print(renderable)
        return [_BLANKS.sub(r"\1", line) for line in captured.get().removesuffix("\n").split("\n")]


@cache
def _elements() -> dict[str, Any]:
    """Elements that are drawn in a way of our own."""
    from rich.console import ConsoleOptions, RenderResult
    from rich.markdown import Heading, HorizontalRule
    from rich.rule import Rule

    class LeftHeading(Heading):
        """A heading at the left edge."""

        def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
            yield self.text

    class Line(HorizontalRule):
        """A horizontal line without gaps."""

        def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
            yield Rule(style="markdown.hr")

    return {"heading_open": LeftHeading, "hr": Line}


def _all_tokens(tokens: list[Token]) -> Iterator[Token]:
    for token in tokens:
        yield token
        yield from _all_tokens(token.children or [])
