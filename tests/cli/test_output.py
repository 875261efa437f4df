"""What is printed: harmless texts, tables, bars, exit codes."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from dovetail.cli import output
from dovetail.cli.exit_status import explain
from dovetail.cli.terminal.progress import progress_bar
from dovetail.protocol import errors
from tests.cli.invoke import DESK, AtTerminal, dovetail


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


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "utf-8", "utf-16"])
def test_json_stays_the_same_json_in_every_encoding(encoding: str) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    text = json.dumps({"é→": "日本 👋"}, ensure_ascii=False)
    written = output.encodable_json(text, stream)
    assert json.loads(written.encode(encoding).decode(encoding)) == json.loads(text)
    assert (written == text) == encoding.startswith("utf")


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "ascii:strict"])
def test_a_character_that_the_output_cannot_encode_is_no_error(encoding: str) -> None:
    done = dovetail("call", DESK, "say", "text=a→👋", PYTHONIOENCODING=encoding)
    assert (done.code, done.out, done.err) == (0, "a\\u2192\\U0001f44b\n", "")
    done = dovetail("call", DESK, "say", "text=é→👋", "--format", "json", PYTHONIOENCODING=encoding)
    assert done.result["content"][0]["text"] == "é→👋"
    done = dovetail("call", DESK, "é→👋", "--format", "json", PYTHONIOENCODING=encoding)
    assert "é→👋" in done.error["message"]


def test_a_file_gets_utf_8_whatever_the_terminal_has(tmp_path: Path) -> None:
    file = tmp_path / "out"
    dovetail("call", DESK, "say", "text=→👋", "-o", str(file), PYTHONIOENCODING="ascii")
    assert file.read_text(encoding="utf-8") == "→👋\n"


@pytest.mark.parametrize("words", [["list", DESK], ["call", DESK, "rows"], ["call", DESK, "echo"], ["help"]], ids=str)
def test_a_dumb_terminal_gets_no_escape_sequences(words: list[str]) -> None:
    with AtTerminal(*words, TERM="dumb") as terminal:
        code, shown = terminal.end()
    assert "\x1b" not in shown and code == 0


def test_control_characters_are_shown_on_a_dumb_terminal_too() -> None:
    with AtTerminal("call", DESK, "say", "text=\x1b[31mred", "--trace", TERM="dumb") as terminal:
        code, shown = terminal.end()
    assert "\x1b" not in shown and code == 0


def test_a_bug_is_not_explained_away() -> None:
    assert explain(ZeroDivisionError()) is None
