"""Answers to questions of servers from the command line."""

import json
from pathlib import Path

import pytest

from tests.cli.invoke import DESK, AtTerminal, dovetail

ANSWERS = ["--answer", "name=Ann", "--answer", "nights=3", "--answer", "sure=yes"]
BOOKED = "Trip(name='Ann', nights=3, price=9.5, breakfast=True, room='single', extras=None, remark=None) True\n"


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_answers_are_converted_by_the_form_and_defaults_fill_the_rest(revision: str) -> None:
    done = dovetail("call", DESK, "book", *ANSWERS, "--revision", revision)
    assert (done.code, done.out, done.err) == (0, BOOKED, "")


def test_the_answers_of_a_form_come_on_the_oldest_revision_with_questions(tmp_path: Path) -> None:
    server = tmp_path / "server.py"
    server.write_text(
        "from dataclasses import dataclass\nfrom dovetail import Context, Server\nserver = Server('s')\n"
        "@dataclass\nclass Who:\n    name: str\n"
        "@server.tool\nasync def greet(ctx: Context) -> str:\n"
        "    return 'Hello ' + (await ctx.elicit('Who?', Who)).data.name\n"
    )
    done = dovetail("call", str(server), "greet", "--answer", "name=Ann", "--revision", "2025-06-18")
    assert (done.code, done.out) == (0, "Hello Ann\n")


def test_a_file_has_answers_for_all_questions_or_one_for_each_in_turn(tmp_path: Path) -> None:
    file = tmp_path / "answers.json"
    file.write_text(json.dumps({"name": "Ann", "nights": 3, "sure": True}))
    assert dovetail("call", DESK, "book", "--answers", str(file)).out == BOOKED
    file.write_text(json.dumps([{"name": "Ann", "nights": 3}, "decline"]))
    assert dovetail("call", DESK, "book", "--answers", str(file)).out == BOOKED.replace("True\n", "decline\n")
    file.write_text(json.dumps(["decline"]))
    assert dovetail("call", DESK, "book", "--answers", str(file)).out == "decline, then\n"


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_a_question_without_an_answer_fails_and_names_the_fields(revision: str) -> None:
    done = dovetail("call", DESK, "book", "--answer", "nights=3", "--revision", revision)
    assert (done.code, done.out) == (5, "")
    assert done.err == (
        'dovetail: The Desk asks "Where do we send the bill?" and needs name. There is no terminal to ask at: '
        "answer with --answer name=…, or with --answers FILE.\n"
    )


def test_an_answer_that_does_not_fit_fails_for_scripts_too() -> None:
    done = dovetail("call", DESK, "book", "--answer", "name=Ann", "--answer", "nights=x", "--format", "json")
    assert done.code == 5
    assert done.error == {
        "code": "unanswered",
        "message": "--answer nights=x does not fit: enter a whole number",
    }


def test_an_answer_that_was_not_asked_for_is_mentioned() -> None:
    done = dovetail("call", DESK, "book", *ANSWERS, "--answer", "nmae=Bob")
    assert done.code == 0
    assert done.err == "The server did not ask for nmae, so this answer was not used.\n"
    assert dovetail("call", DESK, "book", *ANSWERS, "--answer", "nmae=Bob", "-q").err == ""


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_a_missing_terminal_is_said_as_such(revision: str) -> None:
    done = dovetail("call", DESK, "book", "--revision", revision)
    assert done.code == 5
    advice, said = done.err.splitlines()[-2:]
    assert advice == (
        "dovetail: There is no terminal to ask at: answer with --answer KEY=VALUE, or with --answers FILE."
    )
    assert said == "The server said: The client does not support elicitation"


def test_a_terminal_is_asked_for_the_rest() -> None:
    with AtTerminal("call", DESK, "book", "--answer", "sure=yes", "--answer", "nights=3") as terminal:
        terminal.answer("Your name: ", "Ann")
        for prompt in ("price (a number) [9.5]: ", "breakfast (yes/no) [yes]: ", "room (1-2) [single]: "):
            assert "nights" not in terminal.answer(prompt, "")
        terminal.answer("extras", "")
        terminal.answer("remark", "")
        terminal.answer("Send?", "y")
        terminal.until("Trip(name='Ann', nights=3")
        assert terminal.end()[0] == 0


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "is not JSON"),
        ("5", 'must hold an object, or a list of objects, "decline" and "cancel"'),
        ('["accept"]', "must hold an object"),
    ],
)
def test_a_wrong_file_of_answers_is_a_usage_error(text: str, complaint: str, tmp_path: Path) -> None:
    file = tmp_path / "answers.json"
    file.write_text(text)
    done = dovetail("call", DESK, "book", "--answers", str(file))
    assert done.code == 1 and complaint in done.err
    assert dovetail("call", DESK, "book", "--answers", str(tmp_path / "none")).code == 1
