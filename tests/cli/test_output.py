"""What is printed: harmless texts, tables, bars, exit codes."""

import sys
from typing import Any

import pytest

from dovetail.cli import output
from dovetail.cli.exit_status import explain
from dovetail.cli.terminal.progress import progress_bar
from dovetail.protocol import errors


def test_control_characters_are_shown_not_obeyed() -> None:
    assert output.printable("a\x1b[31mb\x07\x9b\u202ec\r") == r"a\x1b[31mb\x07\x9b\u202ec" + r"\r"
    assert output.printable("ünï\tcode\r\n日本 👋\n") == "ünï\tcode\n日本 👋\n"


def test_a_table_is_aligned_also_with_wide_characters(capsys: pytest.CaptureFixture[str]) -> None:
    output.show_table("Title", ["name", "about"], [["日本", "x\ny"], ["a", ""]])
    assert capsys.readouterr().out == "Title\n  name  about\n  ----  -----\n  日本  x y\n  a\n"


@pytest.mark.parametrize(
    "value", [[{"a": [1]}], [1, 2], {"a": 1}, [], [{"a": 1}, 5]], ids=["nested", "numbers", "object", "empty", "mixed"]
)
def test_what_is_no_table_is_json(value: Any, capsys: pytest.CaptureFixture[str]) -> None:
    import json

    output.show_value(value)
    assert json.loads(capsys.readouterr().out) == value


def test_a_narrow_terminal_wraps_the_last_column(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(output.importlib.util, "find_spec", lambda _: None)
    monkeypatch.setenv("COLUMNS", "30")
    output.show_table(None, ["n", "about"], [["x", "some words that do not fit on one line"]])
    assert capsys.readouterr().out.splitlines() == [
        "  n  about",
        "  -  -------------------------",
        "  x  some words that do not",
        "     fit on one line",
    ]


def test_bars_fit_on_one_line() -> None:
    assert progress_bar(1, 4, "step", 80) == "[######------------------]  25% step"
    assert progress_bar(9, 4, None, 80).endswith("100%")
    assert progress_bar(-1, 4, None, 80).endswith("  0%")
    assert progress_bar(3, None, "three\n\x1b[2J", 80) == r"[3] three \x1b[2J"
    assert progress_bar(3, 0, None, 80) == "[3]"
    assert len(progress_bar(1, 2, "x" * 200, 40)) == 39


@pytest.mark.parametrize(
    ("problem", "exit_code", "code"),
    [
        (errors.LocalError("x"), 1, "usage"),
        (errors.ConnectionLost("x"), 4, "unreachable"),
        (errors.Timeout("x"), 4, "timeout"),
        (errors.NotFound(-32002, "x"), 5, "not_found"),
        (errors.RemoteError(-32602, "x"), 5, "remote_error"),
        (errors.InvalidAnswer("x"), 5, "invalid_answer"),
        (errors.Refused("x"), 5, "refused"),
    ],
)
def test_every_error_has_its_exit_code(problem: Exception, exit_code: int, code: str) -> None:
    complaint = explain(problem)
    assert complaint is not None
    assert (complaint.exit_code, complaint.code, complaint.message) == (exit_code, code, "x")


def test_a_bug_is_not_explained_away() -> None:
    assert explain(ZeroDivisionError()) is None
