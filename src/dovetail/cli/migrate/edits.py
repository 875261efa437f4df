"""Source text with the positions of its syntax tree, and edits of it by position."""

from __future__ import annotations

import ast
import bisect
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

_LINE_END = re.compile(r"\r\n|\r|\n")
"""Ends of lines for the parser; `str.splitlines` knows more of them."""


class Span(NamedTuple):
    """A part of the source, from one offset to another."""

    start: int
    end: int


Part: TypeAlias = "str | Span"
"""New text, or a part of the source with the edits inside of it."""


class Edit(NamedTuple):
    """A replacement of a part of the source."""

    start: int
    end: int
    parts: tuple[Part, ...]


class Source:
    """A module: its text, its syntax tree, and the edits collected so far."""

    def __init__(self, text: str) -> None:
        """Parse the text; raises SyntaxError."""
        self.text = text
        self.tree = ast.parse(text)
        self._starts = [0, *(match.end() for match in _LINE_END.finditer(text))]
        self._edits: list[Edit] = []

    def offset(self, line: int, column: int) -> int:
        """The offset of a position of the syntax tree, whose columns count bytes of UTF-8."""
        start = self._starts[line - 1]
        end = self._starts[line] if line < len(self._starts) else len(self.text)
        content = self.text[start:end]
        if content.isascii():
            return start + column
        return start + len(content.encode()[:column].decode())

    def span(self, node: ast.AST) -> Span:
        """The span of a node."""
        place: ast.expr = node  # type: ignore[assignment]  # every node with a position has these four attributes
        assert place.end_lineno is not None
        assert place.end_col_offset is not None
        start = self.offset(place.lineno, place.col_offset)
        return Span(start, self.offset(place.end_lineno, place.end_col_offset))

    def segment(self, node: ast.AST) -> str:
        """The text of a node as it is in the source."""
        start, end = self.span(node)
        return self.text[start:end]

    def line_start(self, offset: int) -> int:
        """The offset at which the line of an offset begins."""
        return self._starts[bisect.bisect_right(self._starts, offset) - 1]

    def line_end(self, offset: int) -> int:
        """The offset after the end of the line of an offset."""
        index = bisect.bisect_right(self._starts, offset)
        return self._starts[index] if index < len(self._starts) else len(self.text)

    def indentation(self, node: ast.AST) -> str:
        """The text before a statement on its line."""
        start = self.span(node).start
        return self.text[self.line_start(start) : start]

    @property
    def newline(self) -> str:
        """The end of lines that the source uses."""
        found = _LINE_END.search(self.text)
        return found[0] if found else "\n"

    def replace(self, span: Span, *parts: Part) -> None:
        """Replace a part of the source; a part of the new text may be a span, which is edited in turn."""
        self._edits.append(Edit(span.start, span.end, parts))

    def insert(self, offset: int, text: str) -> None:
        """Insert text."""
        self.replace(Span(offset, offset), text)

    def delete(self, start: int, end: int) -> None:
        """Delete a part of the source."""
        self.replace(Span(start, end))

    @property
    def is_edited(self) -> bool:
        """True if there are edits."""
        return bool(self._edits)

    def edited(self) -> str:
        """The text with all edits applied; raises ValueError if two of them overlap in part."""
        order = sorted(range(len(self._edits)), key=lambda index: _order(self._edits[index], index))
        return "".join(self._render(Span(0, len(self.text)), [self._edits[index] for index in order]))

    def _render(self, span: Span, edits: Sequence[Edit]) -> Iterator[str]:
        position, index = span.start, 0
        while index < len(edits):
            edit = edits[index]
            if edit.start < position or edit.end > span.end:
                raise ValueError(f"Two edits overlap at offset {edit.start}")
            yield self.text[position : edit.start]
            after = index + 1
            while after < len(edits) and edits[after].start < edit.end:
                after += 1
            inner = edits[index + 1 : after]
            for part in edit.parts:
                if isinstance(part, str):
                    yield part
                else:
                    yield from self._render(part, [e for e in inner if part.start <= e.start and e.end <= part.end])
            position, index = edit.end, after
        yield self.text[position : span.end]


def _order(edit: Edit, index: int) -> tuple[int, bool, int, int]:
    """Insertions come before replacements that begin at the same place, outer replacements before inner ones."""
    return edit.start, edit.end > edit.start, -edit.end, index


class Arguments:
    """The arguments of a call while they are edited; `finish` turns the changes into edits."""

    def __init__(self, source: Source, call: ast.Call) -> None:
        self.source = source
        self.call = call
        self.items: list[ast.expr | ast.keyword] = sorted(
            [*call.args, *call.keywords], key=lambda item: source.span(item).start
        )
        self._removed: set[int] = set()
        self._added: list[tuple[Part, ...]] = []

    def keyword(self, *names: str) -> ast.keyword | None:
        """The keyword argument with one of these names, unless it was removed."""
        for keyword in self.call.keywords:
            if keyword.arg in names and id(keyword) not in self._removed:
                return keyword
        return None

    def positional(self, index: int) -> ast.expr | None:
        """The positional argument at an index, unless it was removed."""
        args = self.call.args
        return args[index] if index < len(args) and id(args[index]) not in self._removed else None

    @property
    def is_plain(self) -> bool:
        """True if no argument is unpacked with `*` or `**`."""
        return not any(isinstance(arg, ast.Starred) for arg in self.call.args) and all(
            keyword.arg is not None for keyword in self.call.keywords
        )

    def rename(self, keyword: ast.keyword, name: str) -> None:
        """Give a keyword argument another name."""
        start = self.source.span(keyword).start
        self.source.replace(Span(start, start + len(keyword.arg or "")), name)

    def name(self, argument: ast.expr, name: str) -> None:
        """Turn a positional argument into a keyword argument."""
        self.source.insert(self.source.span(argument).start, f"{name}=")

    def remove(self, item: ast.expr | ast.keyword) -> None:
        """Remove an argument."""
        self._removed.add(id(item))

    def add(self, *parts: Part) -> None:
        """Add an argument after the others."""
        self._added.append(parts)

    def finish(self) -> None:
        """Make the edits that remove and add arguments."""
        kept = [item for item in self.items if id(item) not in self._removed]
        added: list[Part] = []
        for parts in self._added:
            added += [", ", *parts] if kept or added else parts
        if not kept:
            self._replace_all(added)
            return
        position = 0
        while position < len(self.items):
            if id(self.items[position]) not in self._removed:
                position += 1
                continue
            after = position
            while after < len(self.items) and id(self.items[after]) in self._removed:
                after += 1
            self._remove_run(position, after)
            position = after
        if added:
            end = self.source.span(kept[-1]).end
            self.source.replace(Span(end, end), *added)

    def _remove_run(self, first: int, after: int) -> None:
        span = self.source.span
        if after < len(self.items):
            self.source.delete(span(self.items[first]).start, span(self.items[after]).start)
        else:
            self.source.delete(span(self.items[first - 1]).end, span(self.items[after - 1]).end)

    def _replace_all(self, added: Sequence[Part]) -> None:
        if not self.items and not added:
            return
        end = self.source.span(self.call).end - 1
        start = self.source.text.index("(", self.source.span(self.call.func).end) + 1
        self.source.replace(Span(start, end), *added)
