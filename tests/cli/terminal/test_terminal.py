"""The command at a terminal: questions, progress, Ctrl-C, and texts that would play tricks."""

import json
import re
import sys
from pathlib import Path

import pytest

from tests.cli.invoke import DESK, AtTerminal
from tests.support.raw import eventually

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a pseudo-terminal is POSIX's")

REVISIONS = ("2025-11-25", "2026-07-28")


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_form_is_asked_for_field_by_field(revision: str) -> None:
    with AtTerminal("call", DESK, "book", "--revision", revision, stdout=False) as terminal:
        seen = terminal.answer("Your name: ", "A")
        assert "The Desk asks: Where do we send the bill?" in seen
        assert "at least 2 characters" in terminal.answer("Your name: ", "Ann")
        assert "How long you stay" in terminal.answer("nights (a whole number) [2]: ", "many")
        assert "enter a whole number" in terminal.answer("nights (a whole number) [2]: ", "99")
        assert "at most 30" in terminal.answer("nights (a whole number) [2]: ", "3")
        terminal.answer("price (a number) [9.5]: ", "12.25")
        terminal.answer("breakfast (yes/no) [yes]: ", "maybe")
        assert "yes or no" in terminal.answer("breakfast (yes/no) [yes]: ", "no")
        assert "1) single" in terminal.answer("room (1-2) [single]: ", "2")
        assert "2) boat" in terminal.answer("extras (several, with commas, optional): ", "1, boat")
        terminal.answer("remark (optional): ", "")
        terminal.answer("Send? [y]es", "")
        assert "3 nights for Ann?" in terminal.answer("sure (yes/no): ", "y")
        terminal.answer("Send? [y]es", "yes")
        code, _ = terminal.end()
        assert code == 0
        assert terminal.output() == (
            "Trip(name='Ann', nights=3, price=12.25, breakfast=False, room='double', "
            "extras=['bike', 'boat'], remark=None) True\n"
        )


def test_a_form_can_be_gone_over_again() -> None:
    with AtTerminal("call", DESK, "book", stdout=False) as terminal:
        for name in ("Anne", "Anna"):
            terminal.answer("Your name", name)
            for label in ("nights", "price", "breakfast", "room", "extras", "remark"):
                terminal.answer(f"{label} (", "")
            terminal.answer("Send? [y]es", "e" if name == "Anne" else "y")
        terminal.answer("sure (yes/no): ", "/decline")
        assert terminal.end()[0] == 0
        output = terminal.output()
        assert output.startswith("Trip(name='Anna', nights=2") and output.endswith(" decline\n")


@pytest.mark.parametrize(("typed", "outcome"), [("/decline\n", "decline"), ("/cancel\n", "cancel"), ("\x04", "cancel")])
@pytest.mark.parametrize("revision", REVISIONS)
def test_a_form_is_declined_or_cancelled(typed: str, outcome: str, revision: str) -> None:
    with AtTerminal("call", DESK, "book", "--revision", revision, stdout=False) as terminal:
        terminal.until("Your name: ")
        terminal.type(typed, enter=False)
        assert terminal.end()[0] == 0
        assert terminal.output() == f"{outcome}, then\n"


@pytest.mark.parametrize(("letter", "action"), [("a", "accept"), ("d", "decline"), ("c", "cancel")])
def test_a_page_is_shown_and_not_opened_unasked(letter: str, action: str, tmp_path: Path) -> None:
    opened = tmp_path / "opened"
    with AtTerminal("call", DESK, "visit", stdout=False, BROWSER=f"touch {opened} %s") as terminal:
        seen = terminal.answer("[c]ancel: ", letter)
        assert "go to example.com" in seen and "https://example.com/sign-in?x=1" in seen
        assert terminal.end()[0] == 0
        assert terminal.output() == f"{action}\n"
    assert not opened.exists()


def test_a_page_is_opened_when_the_person_says_so(tmp_path: Path) -> None:
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" > {tmp_path / "opened"}\n')
    browser.chmod(0o755)
    with AtTerminal("call", DESK, "visit", stdout=False, BROWSER=f"{browser} %s") as terminal:
        terminal.answer("[c]ancel: ", "o")
        assert terminal.end()[0] == 0
        assert terminal.output() == "accept\n"
    opened = tmp_path / "opened"
    eventually(lambda: opened.exists() and opened.read_text() == "https://example.com/sign-in?x=1", "it is opened")


def test_a_person_answers_for_a_model_only_when_they_offered_to() -> None:
    with AtTerminal("call", DESK, "think", "--sample", stdout=False) as terminal:
        assert "user: What is 6 times 7?" in terminal.answer("(Enter refuses): ", "42")
        assert terminal.end()[0] == 0
        assert terminal.output() == "it said 42\n"
    with AtTerminal("call", DESK, "think", "--sample", "--format", "json", stdout=False) as terminal:
        terminal.answer("(Enter refuses): ", "")
        code, seen = terminal.end()
        assert code == 5
        assert json.loads(seen.splitlines()[-1])["error"]["code"] == "refused"
    with AtTerminal("call", DESK, "think", stdout=False) as terminal:
        assert terminal.end()[0] == 5


@pytest.mark.parametrize("revision", REVISIONS)
def test_ctrl_c_cancels_the_call_and_reaches_the_server(revision: str, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    with AtTerminal("call", DESK, "sleep", "--revision", revision, "--inherit-env", DESK_NOTES=str(notes)) as terminal:
        terminal.until("sleeping")
        terminal.interrupt()
        code, seen = terminal.end()
        assert code == 130 and "Cancelled." in seen and "Traceback" not in seen
    assert notes.read_text() == "cancelled"


@pytest.mark.parametrize("revision", REVISIONS)
def test_ctrl_c_while_a_question_is_open_ends_the_call(revision: str) -> None:
    with AtTerminal("call", DESK, "book", "--revision", revision) as terminal:
        terminal.until("Your name: ")
        terminal.interrupt()
        code, seen = terminal.end()
        assert code == 130 and "Cancelled." in seen and "Traceback" not in seen


def test_what_was_typed_before_a_question_does_not_answer_it(tmp_path: Path) -> None:
    with AtTerminal("call", DESK, "visit", "--trace", stdout=False) as terminal:
        terminal.until("-->")
        terminal.type("a")
        terminal.answer("[c]ancel: ", "d")
        assert terminal.end()[0] == 0
        assert terminal.output() == "decline\n"


def test_progress_is_a_bar_that_goes_away() -> None:
    with AtTerminal("call", DESK, "count", "to=4", "pause=0.1", columns=60) as terminal:
        seen = terminal.until("100%")
        assert re.search(r"\[######-+\]  25% step 1", seen)
        code, rest = terminal.end()
        assert code == 0
        assert rest.rpartition("\x1b[J")[2] == "counted\n"


def test_progress_is_not_drawn_where_nobody_looks() -> None:
    from tests.cli.invoke import dovetail

    assert dovetail("call", DESK, "count", "to=3").err == ""


def test_a_server_cannot_play_with_the_terminal() -> None:
    with AtTerminal("call", DESK, "say", "text=\x1b]0;owned\x07\x1b[2Jhi \u202e evil") as terminal:
        code, seen = terminal.end()
        assert code == 0
        assert "\x1b]0" not in seen and "\x1b[2J" not in seen and "\u202e" not in seen
        assert r"\x1b[2Jhi \u202e evil" in seen


def test_tables_fit_the_terminal() -> None:
    with AtTerminal("list", DESK, "tools", columns=50) as terminal:
        code, seen = terminal.end()
        assert code == 0
        plain = re.sub(r"\x1b\[[0-9;]*m", "", seen)
        assert "add" in plain and max(map(len, plain.splitlines())) <= 50


def test_binary_contents_are_not_thrown_at_a_terminal() -> None:
    with AtTerminal("read", DESK, "desk://stamp") as terminal:
        assert terminal.end() == (0, "[blob application/octet-stream, 3 bytes]\n")


def test_watch_ends_well_with_ctrl_c() -> None:
    with AtTerminal("watch", DESK, "--tools", "--trace") as terminal:
        terminal.until("subscriptions/acknowledged")
        terminal.interrupt()
        assert terminal.end()[0] == 0
    assert eventually(lambda: terminal.process.poll() is not None, "the command has ended")
