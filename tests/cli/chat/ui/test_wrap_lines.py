"""Long lines go on under their margin: nothing that a server writes reaches the left edge."""

import pytest

from dovetail.cli.chat.ui.colours import Paint, Part
from dovetail.cli.chat.ui.wrap_lines import folded
from dovetail.cli.output import width_of


def fold(*parts: Part, width: int = 20) -> str:
    return Paint(False).line(*folded(parts, width))


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("  | " + "x" * 20, "  | " + "x" * 16 + "\n  | xxxx"),
        ("  < " + "x" * 20, "  < " + "x" * 16 + "\n    xxxx"),
        ("    " + "x" * 20, "    " + "x" * 16 + "\n    xxxx"),
        ("x" * 24, "x" * 20 + "\n    xxxx"),
        ("* a tool with many words", "* a tool with many \n  words"),
        ("short\n  | short", "short\n  | short"),
        ("  | 日本語日本語日本語", "  | 日本語日本語日本\n  | 語"),
        ("  | e\u0301" + "x" * 15, "  | e\u0301" + "x" * 15),
        ("  | \t\txxx\tx", "  | \t\txxx\n  | \tx"),
    ],
)
def test_a_line_goes_on_under_its_own_margin(line: str, shown: str) -> None:
    assert fold(line) == shown


def test_nothing_is_lost_and_no_row_is_too_wide() -> None:
    text = "  | " + "words of 漢字 and 🎉 " * 40
    rows = fold(text, width=33).split("\n")
    assert all(width_of(row) <= 33 and row.startswith("  | ") for row in rows)
    assert "".join(row.removeprefix("  | ") for row in rows) == text.removeprefix("  | ")


def test_what_is_made_visible_counts() -> None:
    assert fold("  | " + "\x1b" * 5) == "  | " + "\\x1b" * 4 + "\n  | \\x1b"


def test_colours_stay_with_their_words() -> None:
    assert folded([("good", "  < "), ("dim", "x" * 18)], 20) == [("good", "  < "), ("dim", "x" * 16 + "\n    xx")]


def test_a_terminal_that_is_too_narrow_for_anything() -> None:
    assert fold("x" * 30, width=3) == "x" * 20 + "\n    " + "x" * 10
