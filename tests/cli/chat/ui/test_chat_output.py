"""Lines, streamed text and questions do not get into each other.

Long lines go on under their margin: nothing that a server writes reaches the left edge.
"""

from contextvars import copy_context

import pytest

from dovetail.cli.chat.ui.chat_output import ChatOutput, wrap_parts
from dovetail.cli.chat.ui.colours import Colorizer, Part
from dovetail.cli.chat.ui.streamed_text import PlainText
from dovetail.cli.output import width_of


class Page:
    def __init__(self) -> None:
        self.text = ""
        self.transcript = ChatOutput(self.write, Colorizer(False), lambda: 40, PlainText())

    def write(self, text: str) -> None:
        self.text += text


def test_a_line_begins_a_line() -> None:
    page = Page()
    page.transcript.stream("half ")
    page.transcript.stream("a text")
    page.transcript.say("a line")
    page.transcript.stream("whole\n")
    page.transcript.say("another")
    assert page.text == "half a text\na line\nwhole\nanother\n"


def test_what_happens_by_itself_waits_for_the_end_of_a_line() -> None:
    page = Page()
    page.transcript.stream("half ")
    page.transcript.notice("news")
    page.transcript.stream("a text\n")
    page.transcript.notice("more news")
    assert page.text == "half a text\nnews\nmore news\n"


def test_a_question_stays_in_one_piece() -> None:
    page = Page()
    elsewhere = copy_context()
    with page.transcript.question():
        page.transcript.say("May it?")
        elsewhere.run(page.transcript.stream, "the model ")
        elsewhere.run(page.transcript.say, "a tool")
        elsewhere.run(page.transcript.notice, "news")
        page.transcript.say("It may.")
        assert page.transcript.in_question and not elsewhere.run(lambda: page.transcript.in_question)
    assert page.text == "May it?\nIt may.\nthe model \na tool\nnews\n"


def test_nothing_plays_with_the_terminal() -> None:
    page = Page()
    page.transcript.stream("\x1b[2J")
    page.transcript.say("\x1b]0;owned\x07")
    assert "\x1b" not in page.text and "\x07" not in page.text


def fold(*parts: Part, width: int = 20) -> str:
    return Colorizer(False).line(*wrap_parts(parts, width))


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
    assert wrap_parts([("good", "  < "), ("dim", "x" * 18)], 20) == [("good", "  < "), ("dim", "x" * 16 + "\n    xx")]


def test_a_terminal_that_is_too_narrow_for_anything() -> None:
    assert fold("x" * 30, width=3) == "x" * 20 + "\n    " + "x" * 10
