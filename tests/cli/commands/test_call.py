"""`dovetail call`: arguments in, results out, for people and for scripts."""

import json
import signal
import subprocess
from pathlib import Path

import pytest

from dovetail.protocol.revisions import REVISIONS
from tests.cli.invoke import COMMAND, DESK, dovetail, environment
from tests.support.raw import eventually


def test_arguments_are_read_by_the_schema() -> None:
    done = dovetail("call", DESK, "add", "a=2", "b=3")
    assert (done.code, done.out, done.err) == (0, "5\n", "")


def test_a_string_stays_a_string_and_lists_take_commas_or_repetition() -> None:
    words = ["text=5", "number=5", "flag=true", "tags=a, b", "counts=1", "counts=2", 'extra={"x":1}']
    result = dovetail("call", DESK, "echo", *words, "--format", "json").result
    assert result["structuredContent"] == {
        "text": "5",
        "number": 5,
        "flag": True,
        "tags": ["a", "b"],
        "counts": [1, 2],
        "extra": {"x": 1},
    }


def test_json_values_go_as_they_are() -> None:
    result = dovetail("call", DESK, "echo", 'tags:=["a,b"]', "--format=json", "number:=null").result
    assert result["structuredContent"]["tags"] == ["a,b"]


@pytest.mark.parametrize("way", ["written", "file", "stdin"])
def test_all_arguments_as_json(way: str, tmp_path: Path) -> None:
    text = '{"a": 2, "b": 40}'
    (tmp_path / "arguments.json").write_text(text)
    word = {"written": text, "file": f"@{tmp_path / 'arguments.json'}", "stdin": "-"}[way]
    assert dovetail("call", DESK, "add", "--json", word, stdin=text).out == "42\n"


def test_a_result_for_scripts_is_the_same_on_every_revision() -> None:
    results = {
        name: dovetail("call", DESK, "add", "a=1", "--format", "json", "--revision", name).result for name in REVISIONS
    }
    for name, result in results.items():
        result.pop("_meta", None)
        assert result == {"content": [{"type": "text", "text": "2"}], "structuredContent": 2, "isError": False}, name


def test_a_list_of_flat_objects_is_a_table() -> None:
    assert dovetail("call", DESK, "rows").out == "  city  high\n  ----  ----\n  Lima  21.5\n  Oslo\n"


def test_pictures_are_described_and_saved(tmp_path: Path) -> None:
    folder = tmp_path / "pictures"
    done = dovetail("call", DESK, "picture", "--save", str(folder))
    [saved] = folder.iterdir()
    assert saved.name == "image-1.png" and saved.read_bytes().startswith(b"\x89PNG")
    assert done.out.splitlines() == [
        f"[image image/png, {saved.stat().st_size} bytes, saved as {saved}]",
        "[link to desk://note: note]",
    ]


def test_a_tool_error_is_5() -> None:
    done = dovetail("call", DESK, "fail")
    assert (done.code, done.out, done.err) == (5, "", "dovetail: Out of ink.\n")
    done = dovetail("call", DESK, "fail", "--format", "json")
    assert (done.code, done.error) == (5, {"code": "tool_error", "message": "Out of ink.", "tool": "fail"})


def test_an_unknown_tool_is_5() -> None:
    done = dovetail("call", DESK, "addd", "--format", "json")
    assert done.code == 5
    assert done.error["rpcCode"] == -32602 and "addd" in done.error["message"]


def test_what_cannot_be_started_is_4() -> None:
    done = dovetail("call", "/no/such/program", "x", "--format", "json")
    assert (done.code, done.error["code"]) == (4, "unreachable")


def test_a_server_that_dies_is_4_and_its_last_words_are_told() -> None:
    done = dovetail("call", "sh -c 'echo no luck >&2; exit 3'", "x", "--format", "json")
    assert done.code == 4
    assert "code 3" in done.error["message"] and "no luck" in done.error["message"]


def test_no_answer_in_time_is_4() -> None:
    done = dovetail("call", DESK, "sleep", "--timeout", "0.3", "--revision", "2025-11-25", "--format", "json")
    assert (done.code, done.error["code"]) == (4, "timeout")


@pytest.mark.parametrize(
    "words",
    [
        ["call", DESK],
        ["call", DESK, "add", "a"],
        ["call", DESK, "add", "--json", "{", "--format", "json"],
        ["call", DESK, "add", "--json", "[]"],
        ["call", DESK, "add", "--json", "@/no/such/file"],
        ["call", DESK, "add", "a=1", "--json", "{}"],
        ["call", DESK, "add", "a:=x"],
        ["call", DESK, "echo", "extra=x"],
        ["call", DESK, "add", "a=1", "--timeout", "soon"],
        ["call", DESK, "add", "a=1", "--revision", "1999-01-01"],
        ["call", DESK, "think", "--sample"],
        ["call", DESK, "add", "--nonsense"],
        ["call", "", "add"],
        ["frobnicate"],
    ],
    ids=" ".join,
)
def test_wrong_usage_is_1_and_one_line_for_scripts(words: list[str]) -> None:
    done = dovetail(*words)
    assert (done.code, done.out) == (1, "")
    assert "Traceback" not in done.err
    if "json" in words:
        assert done.error["code"] == "usage"


def test_options_may_stand_between_the_arguments() -> None:
    assert dovetail("call", "--timeout", "20", DESK, "--format", "json", "add", "a=1", "--trace", "b=1").result


def test_the_trace_shows_both_directions_on_stderr() -> None:
    done = dovetail("call", DESK, "add", "a=1", "--trace", "--revision", "2025-06-18")
    assert done.out == "2\n"
    lines = [line.split(" ms ", 1)[1] for line in done.err.splitlines()]
    sent = [json.loads(line[4:]) for line in lines if line.startswith("--> ")]
    received = [json.loads(line[4:]) for line in lines if line.startswith("<-- ")]
    methods = ["initialize", "notifications/initialized", "tools/list", "tools/call"]
    assert [message["method"] for message in sent] == methods
    assert received[-1]["result"]["content"] == [{"type": "text", "text": "2"}]


def test_a_question_with_nobody_to_ask_is_an_error_that_says_so() -> None:
    done = dovetail("call", DESK, "book", "--format", "json")
    assert done.code == 5
    assert done.error["rpcCode"] == -32021
    done = dovetail("call", DESK, "book", "--revision", "2025-11-25", "--format", "json")
    assert (done.code, done.error["code"]) == (5, "tool_error")


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_what_the_server_logs_is_shown_from_a_level_on(revision: str) -> None:
    done = dovetail("call", DESK, "mutter", "--log", "info", "--revision", revision)
    assert (done.code, done.out) == (0, "said\n")
    [line] = done.err.splitlines()
    assert line.startswith("[warning]") and "running out" in line and "3" in line
    assert dovetail("call", DESK, "mutter", "--revision", revision).err == ""


def test_roots_reach_the_server(tmp_path: Path) -> None:
    done = dovetail("call", DESK, "where", "--root", str(tmp_path), "--format", "json")
    assert done.result["structuredContent"] == [tmp_path.as_uri()]


def test_env_and_cwd_reach_the_server(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    dovetail("call", DESK, "sleep", "--env", "DESK_NOTES=notes", "--cwd", str(tmp_path), "--timeout", "0.5")
    assert notes.read_text()


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_an_interrupt_cancels_the_call_at_the_server(revision: str, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    words = ["call", DESK, "sleep", "--revision", revision, "--format", "json", "--timeout", "0", "--inherit-env"]
    command = subprocess.Popen(
        [*COMMAND, *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(DESK_NOTES=str(notes)),
    )
    with command:
        eventually(lambda: notes.exists() and notes.read_text() == "asleep", "the tool runs")
        command.send_signal(signal.SIGINT)
        out, err = command.communicate(timeout=30)
    assert command.returncode == 130
    assert notes.read_text() == "cancelled"
    assert out == b"" and json.loads(err.splitlines()[-1])["error"]["code"] == "cancelled"


def test_a_reader_that_leaves_is_no_error() -> None:
    words = " ".join([*COMMAND, "call", DESK, "say", f"text={'x' * 100}"])
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {words} | true"], env=environment(), capture_output=True, timeout=60
    )
    assert done.returncode == 0 and b"Traceback" not in done.stderr


def test_the_server_inherits_a_variable_that_programs_do_not_need_only_on_request(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    words = ["call", DESK, "sleep", "--timeout", "0.5"]
    dovetail(*words, DESK_NOTES=str(notes))
    assert not notes.exists()
    dovetail(*words, "--inherit-env", DESK_NOTES=str(notes))
    assert notes.read_text()


def test_a_result_above_the_limit_names_the_option() -> None:
    done = dovetail("call", DESK, "say", "text=" + "x" * 5000, "--max-message-bytes", "5000")
    assert done.code == 5
    assert "max_message_bytes" in done.err
