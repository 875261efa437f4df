"""Bars of calls that run side by side, and lines above them."""

import io

import pyte
import pytest

from dovetail.cli.terminal.progress import Screen, bar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(stream: io.StringIO) -> list[str]:
    """What a person sees."""
    screen = pyte.Screen(80, 12)
    pyte.Stream(screen).feed(stream.getvalue().replace("\n", "\r\n"))
    return [line.rstrip() for line in screen.display if line.strip()]


@pytest.fixture(autouse=True)
def term(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")


def test_each_call_has_a_bar_and_takes_it_away() -> None:
    stream = Terminal()
    screen = Screen(stream)
    for call in ("a", "b", "c"):
        screen.progress(2, 2, call, call)
    assert [line[-1] for line in shown(stream)] == ["a", "b", "c"]
    screen.line("news")
    assert [line[-1] for line in shown(stream)] == ["s", "a", "b", "c"]
    screen.end_progress("b")
    assert [line[-1] for line in shown(stream)] == ["s", "a", "c"]
    screen.end_progress()
    assert shown(stream) == ["news"]


def test_many_calls_leave_room_for_the_rest() -> None:
    stream = Terminal()
    screen = Screen(stream)
    for call in range(16):
        screen.progress(2, 2, None, str(call))
    assert len(shown(stream)) == 5 and shown(stream)[-1] == "and 12 more"


def test_a_question_has_the_place_to_itself() -> None:
    stream = Terminal()
    screen = Screen(stream)
    screen.progress(2, 2, "a", "a")
    screen.progress(2, 2, "b", "b")
    screen.hide()
    assert shown(stream) == []
    screen.progress(2, 2, "c", "a")
    assert shown(stream) == []
    screen.show()
    assert [line[-1] for line in shown(stream)] == ["c", "b"]


def test_a_terminal_that_knows_no_sequences_gets_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    stream = Terminal()
    screen = Screen(stream)
    screen.progress(1, 2, "a")
    screen.line("news")
    assert stream.getvalue() == "news\n"


def test_wide_letters_fit_on_the_line() -> None:
    assert bar(1, None, "日本語" * 10, 20) == "[1] 日本語日本語日"
