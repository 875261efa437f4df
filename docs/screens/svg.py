"""SVG pictures of a terminal: one frame, or timed frames as an animation without scripts.

Text is placed on a grid of cells of fixed size, so that a picture looks the same with every monospace font. Lines of
boxes and blocks are drawn as shapes, because fonts leave gaps between them. In an animation, each line that differs is
defined once, and each row has its own sequence of lines: the size of the file grows with what changes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape

from docs.screens.boxes import box_shape
from docs.screens.frame import Frame, Line, Run, Style
from docs.screens.record import TimedFrame

CELL, ROW = 8.4, 19.0
"""Width and height of a cell in pixels, for text of 14 pixels."""
_SIZE, _BASE = 14, 14
_PAD, _BAR = 14, 34
_REST = 3.0
"""Seconds that the last frame stays before an animation begins again."""

_COLOURS = {
    "background": "#14171f",
    "foreground": "#d7dae0",
    "black": "#3b4252",
    "red": "#f2777a",
    "green": "#8fd694",
    "brown": "#e8c170",
    "blue": "#7aa6f5",
    "magenta": "#cf9ff0",
    "cyan": "#6fcfd6",
    "white": "#d7dae0",
    "brightblack": "#7a8294",
    "brightred": "#ff9a9c",
    "brightgreen": "#aee8b2",
    "brightbrown": "#f6d794",
    "brightblue": "#a3c3ff",
    "brightmagenta": "#e2c2ff",
    "brightcyan": "#9be6eb",
    "brightwhite": "#ffffff",
}
_FONTS = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono','Liberation Mono',monospace"
_STYLE = (
    f"text{{font:{_SIZE}px {_FONTS};fill:{_COLOURS['foreground']}}}"
    ".b{font-weight:700}.d{opacity:.6}.i{font-style:italic}.u{text-decoration:underline}"
    ".s{text-decoration:line-through}.t{fill:#8a92a5;font-size:13px;text-anchor:middle}"
)
_SEAM = re.compile(r"H([\d.]+)M\1,[\d.]+(?=H)")
"""The point where one horizontal stroke goes on with the next."""
_PIECE = re.compile(r"\S+(?: \S+)*")


def static_svg(frame: Frame, title: str = "") -> str:
    """A picture of one frame; blank lines at its end are left out."""
    lines = list(frame.lines)
    while len(lines) > 1 and not lines[-1].runs and lines[-1].cursor is None:
        lines.pop()
    body = [
        f'<g transform="translate(0,{_number(row * ROW)})">{"".join(_line(line))}</g>'
        for row, line in enumerate(lines)
        if line.runs or line.cursor is not None
    ]
    return _document(frame.columns, len(lines), title, _STYLE, [], body)


def animated_svg(frames: Sequence[TimedFrame], title: str = "", rest: float = _REST) -> str:
    """Timed frames as an animation that repeats; viewers who want no motion see the last frame."""
    columns, height = frames[0].frame.columns, len(frames[0].frame.lines)
    total = frames[-1].at + rest
    width = columns * CELL
    shapes: dict[Line, str] = {}
    rules: list[str] = []
    body: list[str] = []
    for row in range(height):
        changes = _changes((timed.at, timed.frame.lines[row]) for timed in frames)
        if not any(line.runs or line.cursor is not None for _, line in changes):
            continue
        order = list(dict.fromkeys(line for _, line in changes))
        uses = [
            f'<use href="#{shapes.setdefault(line, f"l{len(shapes)}")}" x="{_number(place * width)}"/>'
            for place, line in enumerate(order)
            if line.runs or line.cursor is not None
        ]
        end = -order.index(changes[-1][1]) * width
        body.append(
            f'<svg y="{_number(row * ROW)}" width="{_number(width)}" height="{_number(ROW)}">'
            f'<g id="r{row}" transform="translate({_number(end)},0)">{"".join(uses)}</g></svg>'
        )
        if len(changes) > 1:
            rules.append(_keyframes(row, [(at / total, -order.index(line) * width) for at, line in changes], total))
    motion = f"@media (prefers-reduced-motion:no-preference){{{''.join(rules)}}}"
    shared = [f'<g id="{name}">{"".join(_line(line))}</g>' for line, name in shapes.items()]
    return _document(columns, height, title, _STYLE + motion, shared, body)


def _changes(lines: Iterable[tuple[float, Line]]) -> list[tuple[float, Line]]:
    """The times at which a row begins to show another line."""
    changes: list[tuple[float, Line]] = []
    for at, line in lines:
        if not changes or changes[-1][1] != line:
            changes.append((at, line))
    return changes


def _keyframes(row: int, places: Sequence[tuple[float, float]], total: float) -> str:
    moves = "".join(
        f"{_number(share * 100, 3)}%{{transform:translateX({_number(place)}px)}}" for share, place in places
    )
    return f"@keyframes k{row}{{{moves}}}#r{row}{{animation:k{row} {_number(total)}s step-end infinite}}"


def _document(columns: int, rows: int, title: str, style: str, shared: list[str], body: list[str]) -> str:
    width, height = columns * CELL + 2 * _PAD, rows * ROW + _BAR + _PAD
    dots = "".join(
        f'<circle cx="{20 + 20 * place}" cy="17" r="6" fill="{colour}"/>'
        for place, colour in enumerate(("#ff5f57", "#febc2e", "#28c840"))
    )
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_number(width)}" height="{_number(height)}" '
        f'viewBox="0 0 {_number(width)} {_number(height)}" role="img">',
        f"<title>{escape(title or 'terminal')}</title>",
        f"<style>{style}</style>",
        f"<defs>{''.join(shared)}</defs>" if shared else "",
        f'<rect x=".5" y=".5" width="{_number(width - 1)}" height="{_number(height - 1)}" rx="9" '
        f'fill="{_COLOURS["background"]}" stroke="#2b303b"/>',
        dots,
        f'<text class="t" x="{_number(width / 2)}" y="22">{escape(title)}</text>' if title else "",
        f'<svg x="{_PAD}" y="{_BAR}" width="{_number(columns * CELL)}" height="{_number(rows * ROW)}">',
        *body,
        "</svg>",
        "</svg>",
    ]
    return "\n".join(part for part in parts if part) + "\n"


def _line(line: Line) -> list[str]:
    """The shapes of a line at the top left corner."""
    backs = [_back(run) for run in line.runs if run.style.bg != "default"]
    cursor = [] if line.cursor is None else [_rectangle(line.cursor, 1, _COLOURS["foreground"], ' opacity=".55"')]
    return [*backs, *cursor, *(shape for run in line.runs for shape in _texts(run))]


def _back(run: Run) -> str:
    return _rectangle(run.column, run.cells, _colour(run.style.bg))


def _rectangle(column: int, cells: int, colour: str, more: str = "") -> str:
    return (
        f'<rect x="{_number(column * CELL)}" width="{_number(cells * CELL)}" height="{_number(ROW)}" '
        f'fill="{colour}"{more}/>'
    )


def _texts(run: Run) -> list[str]:
    """A run as pieces without long gaps; characters of boxes are drawn."""
    column, plain, shapes = run.column, "", list[str]()
    starts: list[int] = []
    for char in run.text:
        shape = box_shape(char, column * CELL, CELL, ROW)
        starts.append(column)
        plain += " " if shape is not None else char
        if shape is not None:
            shapes.append(shape)
        column += _cells(char)
    starts.append(column)
    look = _look(run.style)
    drawn = [f"<g{look}>{''.join(_joined(shapes))}</g>"] if shapes else []
    for piece in _PIECE.finditer(plain):
        begin, end = starts[piece.start()], starts[piece.end()]
        drawn.append(
            f'<text x="{_number(begin * CELL)}" y="{_BASE}" textLength="{_number((end - begin) * CELL)}"{look}>'
            f"{escape(piece[0], quote=False)}</text>"
        )
    return drawn


def _joined(shapes: list[str]) -> list[str]:
    """All lines of boxes as one path; `currentColor` stands for the colour of the text."""
    lines = _SEAM.sub("", "".join(shape for shape in shapes if not shape.startswith("<")))
    rest = [shape for shape in shapes if shape.startswith("<")]
    return [*([f'<path d="{lines}" stroke="currentColor" fill="none"/>'] if lines else []), *rest]


def _look(style: Style) -> str:
    names = [
        name
        for name, on in zip("bdius", (style.bold, style.dim, style.italic, style.underline, style.strike), strict=True)
        if on
    ]
    colour = _colour(style.fg)
    css = "" if style.fg == "default" else f' style="fill:{colour};color:{colour}"'
    return (f' class="{" ".join(names)}"' if names else "") + (css or f' color="{colour}"')


def _colour(name: str) -> str:
    return _COLOURS["foreground"] if name == "default" else _COLOURS.get(name, f"#{name}")


def _cells(char: str) -> int:
    from wcwidth import wcwidth

    return max(wcwidth(char), 0)


def _number(value: float, digits: int = 2) -> str:
    return f"{value:.{digits}f}".rstrip("0").rstrip(".") or "0"
