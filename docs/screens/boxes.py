"""Characters that draw boxes and blocks (U+2500 to U+259F) as shapes."""

from __future__ import annotations

_THIN = {
    "─": "lr", "│": "ud", "┌": "rd", "┐": "ld", "└": "ru", "┘": "lu", "├": "udr", "┤": "udl", "┬": "lrd", "┴": "lru",
    "┼": "lrud", "╭": "rd", "╮": "ld", "╰": "ru", "╯": "lu", "╴": "l", "╵": "u", "╶": "r", "╷": "d",
    "━": "LR", "┃": "UD", "┏": "RD", "┓": "LD", "┗": "RU", "┛": "LU", "╸": "L", "╺": "R", "╹": "U", "╻": "D",
    "┡": "URd", "┩": "ULd", "╇": "LRUd", "┢": "uRD", "┪": "uLD", "┳": "LRD", "┻": "LRU", "┣": "UDR", "┫": "UDL",
    "╋": "LRUD", "╞": "udR", "╡": "udL", "╪": "udLR", "═": "LR",
}  # fmt: skip
"""The arms of each character: left, right, up, down; heavy ones in capitals."""
_ROUND = frozenset("╭╮╰╯")
_EIGHTHS = " ▁▂▃▄▅▆▇█"
_LEFT = "█▉▊▋▌▍▎▏"


def box_shape(char: str, x: float, width: float, height: float) -> str | None:
    """The path or element of a character in its cell; None if it is no box character."""
    if char in _THIN:
        return _lines(char, x, width, height)
    if char in _EIGHTHS[1:]:
        tall = height * _EIGHTHS.index(char) / 8
        return _block(x, height - tall, width, tall)
    if char in _LEFT:
        return _block(x, 0, width * (8 - _LEFT.index(char)) / 8, height)
    if char == "▐":
        return _block(x + width / 2, 0, width / 2, height)
    if char == "▀":
        return _block(x, 0, width, height / 2)
    return None


def _lines(char: str, x: float, width: float, height: float) -> str:
    middle, centre = height / 2, x + width / 2
    ends = {"l": (x, middle), "r": (x + width, middle), "u": (centre, 0.0), "d": (centre, height)}
    arms = _THIN[char]
    if char in _ROUND:
        (side, edge) = (ends[arms[0]], ends[arms[1]])
        return f"M{_at(*side)}Q{_at(centre, middle)} {_at(*edge)}"
    if char == "─":
        return f"M{_at(x, middle)}H{x + width:.2f}"
    made: list[str] = []
    for arm in arms:
        end = ends[arm.lower()]
        made.append(f"M{_at(centre, middle)}L{_at(*end)}")
        if arm.isupper():  # a second line beside the first
            aside = (0.0, 1.0) if arm in "LR" else (1.0, 0.0)
            made.append(f"M{_at(centre + aside[0], middle + aside[1])}L{_at(end[0] + aside[0], end[1] + aside[1])}")
    return "".join(made)


def _block(x: float, y: float, width: float, height: float) -> str:
    return f'<path d="M{_at(x, y)}h{width:.2f}v{height:.2f}h-{width:.2f}z" fill="currentColor"/>'


def _at(x: float, y: float) -> str:
    return f"{x:.2f},{y:.2f}"
