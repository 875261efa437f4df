"""Bars of calls that run side by side, and lines above them."""

import asyncio
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


def test_a_wait_shows_a_sign_of_life_after_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dovetail.cli.terminal.progress._SILENCE", 0.01)
    stream = Terminal()

    async def wait() -> None:
        display = ProgressDisplay(stream)
        async with display.activity("Connecting to x"):
            while not shown(stream):
                await asyncio.sleep(0.005)
            assert shown(stream) == ["Connecting to x … 0 s"]
            display.write("Your name: ")
            await asyncio.sleep(0.05)
            assert shown(stream) == ["Your name:"], "a prompt must not be overwritten"
            display.write("\n")
            display.progress(2, 2, "half", "call")
            assert shown(stream)[1:] == ["[########################] 100% half"]
            display.end_progress()
        assert shown(stream) == ["Your name:"]

    asyncio.run(wait())


@pytest.mark.parametrize("quiet", [True, False])
def test_quiet_leaves_out_bars_and_notes_but_no_lines(quiet: bool) -> None:
    stream = Terminal()
    display = ProgressDisplay(stream, quiet=quiet)
    display.note("a note")
    display.line("a line")
    display.progress(2, 2, "a", "a")
    assert len(shown(stream)) == (1 if quiet else 3)


def test_an_open_block_is_replaced_by_the_lines_that_stay() -> None:
    stream = Terminal()
    display = ProgressDisplay(stream)
    still = ["half a para"]
    display.open_lines = lambda: still
    display.status("* model 1 s")
    assert shown(stream) == ["half a para", "* model 1 s"]
    still[:] = ["a list"]
    display.write("half a paragraph\n\n")
    assert shown(stream) == ["half a paragraph", "a list", "* model 1 s"]
    still.clear()
    display.status("")
    assert shown(stream) == ["half a paragraph"]


def test_only_lines_that_changed_are_drawn_again() -> None:
    stream = Terminal()
    display = ProgressDisplay(stream)
    display.open_lines = lambda: ["first", "second"]
    display.status("1 s")
    before = len(stream.getvalue())
    display.status("2 s")
    assert "first" not in stream.getvalue()[before:] and shown(stream) == ["first", "second", "2 s"]


def test_an_open_block_that_is_higher_than_the_terminal_shows_its_end() -> None:
    stream = Terminal()
    display = ProgressDisplay(stream)
    display.open_lines = lambda: [f"line {number}" for number in range(100)]
    display.status("1 s")
    assert len(stream.getvalue().split("\n")) <= 24 and "line 99" in stream.getvalue()


async def test_a_message_of_an_activity_leaves_room_for_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dovetail.cli.terminal.progress._SILENCE", 0.0)
    stream = Terminal()
    display = ProgressDisplay(stream)
    async with display.activity("Calling render"):
        display.message("frame 3")
        assert shown(stream) == ["Calling render: frame 3 … 0 s"]
        display.message("x" * 200)
        assert shown(stream)[0].endswith("xxx … 0 s")
    assert shown(stream) == []
