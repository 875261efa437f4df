"""Streamed text where lines cannot be redrawn: a pipe gets it as it is, a dumb terminal broken between words."""

import io

import pytest

from dovetail.cli.chat.ui.streamed_text import MarkdownText, PlainText, streamed_text
from dovetail.cli.terminal.progress import ProgressDisplay


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_pipe_gets_the_pieces_as_they_are() -> None:
    text = PlainText()
    assert text.feed("a long ", None) + text.feed("line " * 40, None) == "a long " + "line " * 40
    assert text.is_open and text.flush(None) == "\n" and not text.is_open


@pytest.mark.parametrize("size", [1, 4, 100])
def test_a_dumb_terminal_gets_lines_broken_between_words(size: int) -> None:
    said = "one two three four five\n  six sevenseven eight"
    text = PlainText()
    shown = "".join(text.feed(said[place : place + size], 12) for place in range(0, len(said), size)) + text.flush(12)
    assert [line.rstrip() for line in shown.split("\n")] == [
        "one two",
        "three four",
        "five",
        "  six",
        "sevenseven",
        "eight",
        "",
    ]


def test_a_word_wider_than_the_terminal_is_not_kept_back() -> None:
    text = PlainText()
    assert text.feed("x" * 30, 12) == "x" * 30


def test_only_a_terminal_that_can_redraw_lines_gets_markdown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    assert isinstance(streamed_text(ProgressDisplay(Terminal())), MarkdownText)
    assert isinstance(streamed_text(ProgressDisplay(io.StringIO())), PlainText)
    monkeypatch.setenv("TERM", "dumb")
    assert isinstance(streamed_text(ProgressDisplay(Terminal())), PlainText)
