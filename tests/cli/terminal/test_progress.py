"""Bars of calls that run side by side, and lines above them."""

import io

import pyte
import pytest

from dovetail.cli.terminal.progress import ProgressDisplay, progress_bar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(stream: io.StringIO) -> list[str]:
    """What a person sees."""
    display = pyte.Screen(80, 12)
    pyte.Stream(display).feed(stream.getvalue().replace("\n", "\r\n"))
    return [line.rstrip() for line in display.display if line.strip()]


@pytest.fixture(autouse=True)
def term(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")


def test_each_call_has_a_bar_and_takes_it_away() -> None:
    stream = Terminal()
    display = ProgressDisplay(stream)
    for call in ("a", "b", "c"):
        display.progress(2, 2, call, call)
    assert [line[-1] for line in shown(stream)] == ["a", "b", "c"]
    display.line("news")
    assert [line[-1] for line in shown(stream)] == ["s", "a", "b", "c"]
    display.end_progress("b")
    assert [line[-1] for line in shown(stream)] == ["s", "a", "c"]
    display.end_progress()
    assert shown(stream) == ["news"]


def test_many_calls_leave_room_for_the_rest() -> None:
    stream = Terminal()
    display = ProgressDisplay(stream)
    for call in range(16):
        display.progress(2, 2, None, str(call))
    assert len(shown(stream)) == 5 and shown(stream)[-1] == "and 12 more"


def test_a_question_has_the_place_to_itself() -> None:
    stream = Terminal()
    display = ProgressDisplay(stream)
    display.progress(2, 2, "a", "a")
    display.progress(2, 2, "b", "b")
    display.hide()
    assert shown(stream) == []
    display.progress(2, 2, "c", "a")
    assert shown(stream) == []
    display.show()
    assert [line[-1] for line in shown(stream)] == ["c", "b"]


def test_a_terminal_that_knows_no_sequences_gets_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    stream = Terminal()
    display = ProgressDisplay(stream)
    display.progress(1, 2, "a")
    display.line("news")
    assert stream.getvalue() == "news\n"


def test_wide_letters_fit_on_the_line() -> None:
    assert progress_bar(1, None, "日本語" * 10, 20) == "[1] 日本語日本語日"
