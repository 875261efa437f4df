"""`dovetail ask`: a question for scripts, under rules that are said in so many words."""

import asyncio
import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dovetail.host.catalogue import tool_name
from tests.cli.invoke import DESK, Done, dovetail, environment
from tests.support.emulated import Emulated
from tests.support.model_endpoint import endpoint, failure

SCRIPT: dict[str, list[dict[str, Any]]] = {
    "add": [
        {"say": "Let me see.", "use": [{"name": "desk__add", "arguments": {"a": 40, "b": 2}}]},
        {"say": "It is done."},
    ],
    "sleep": [{"say": "", "use": [{"name": "desk__sleep", "arguments": {}}]}],
    "note": [{"say": "There is a note."}],
    "": [{"say": "Hello, Grüße."}],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    env = {"DESK_NOTES": str(tmp_path / "notes")}
    servers = {"desk": {"command": sys.executable, "args": [DESK], "env": env}}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    (tmp_path / "talk.json").write_text(json.dumps(SCRIPT))
    return tmp_path


def words(folder: Path, *more: str) -> list[str]:
    return ["ask", *more, "--config", str(folder / "mcp.json"), "--model", f"scripted:{folder / 'talk.json'}"]


def run(folder: Path, *words: str, stdin: str = "") -> Done:
    return dovetail(*words, stdin=stdin, cwd=folder, XDG_CONFIG_HOME=str(folder / "user"), HOME=str(folder))


def ask(folder: Path, *more: str, stdin: str = "") -> Done:
    return run(folder, *words(folder, *more), stdin=stdin)


def test_the_answer_is_on_stdout_and_nothing_else(folder: Path) -> None:
    done = ask(folder, "add it up", "--launch", "desk", "--allow", "desk__add")
    assert done.code == 0
    assert done.out == "It is done.\n"
    assert "Let me see." in done.err and "desk: add" in done.err


def test_the_answer_goes_to_a_file_and_quiet_leaves_only_errors(folder: Path) -> None:
    file = folder / "answer.txt"
    done = ask(folder, "add it up", "--launch", "desk", "--allow", "desk__add", "-q", "-o", str(file))
    assert (done.code, done.out, done.err, file.read_text()) == (0, "", "", "It is done.\n")


def test_json_output_has_the_answer_and_the_calls(folder: Path) -> None:
    done = ask(folder, "add it up", "--launch", "desk", "--allow", "desk__a*", "--format", "json")
    call = {"server": "desk", "tool": "add", "arguments": {"a": 40, "b": 2}, "refused": False, "isError": False}
    assert done.result == {"text": "It is done.", "model": "talk", "calls": [call], "reason": "done"}


@pytest.mark.parametrize("rules", [(), ("--allow", "desk__sl*"), ("--allow", "desk", "--deny", "desk__add")])
def test_what_would_be_asked_is_refused(rules: tuple[str, ...], folder: Path) -> None:
    done = ask(folder, "add it up", "--launch", "desk", "--format", "json", *rules)
    assert [call["refused"] for call in done.result["calls"]] == [True]
    assert "add was refused" in done.err and "ask the user" not in done.err


def test_a_refusal_says_which_option_would_help(folder: Path) -> None:
    done = ask(folder, "add it up", "--launch", "desk", "--allow", "desk__ad")
    assert "--allow desk__ad: there is no such tool; did you mean desk__add?" in done.err
    assert "desk: add was refused: it needs approval; --allow desk__add approves it\n" in done.err
    done = ask(folder, "add it up")
    assert done.err.count("desk is not ready") == 1
    assert "desk is not ready: its launch is not approved; --launch desk approves it\n" in done.err


def test_a_server_whose_key_looks_like_a_tool(folder: Path) -> None:
    config = folder / "mcp.json"
    config.write_text(config.read_text().replace('"desk"', '"my__desk"'))
    talk = folder / "talk.json"
    names = {tool_name("my__desk", "add"): "desk__add"}
    for name, before in names.items():
        talk.write_text(talk.read_text().replace(before, name))
    done = ask(folder, "add it up", "--launch", "my__desk", "--allow", "my__desk__add", "--format", "json")
    assert [(call["server"], call["refused"]) for call in done.result["calls"]] == [("my__desk", False)]


def test_a_server_that_nobody_let_start_is_named(folder: Path) -> None:
    done = ask(folder, "hello")
    assert done.code == 0 and done.out == "Hello, Grüße.\n"
    assert "desk is not ready" in done.err


def test_rules_come_from_a_file_too(folder: Path) -> None:
    rules = folder / "rules.toml"
    rules.write_text('[[rules]]\nverdict = "allow"\nkind = "launch"\n\n[[rules]]\nverdict = "allow"\ntool = "add"\n')
    done = ask(folder, "add it up", "--policy", str(rules), "--format", "json")
    assert [call["refused"] for call in done.result["calls"]] == [False]


def test_a_question_comes_from_stdin_and_resources_go_along(folder: Path) -> None:
    done = ask(folder, "-", "--launch", "desk", "--attach", "desk=desk://note", stdin="what is the note?")
    assert done.out == "There is a note.\n"
    both = ("--attach", "desk=desk://note", "--attach", "desk=desk://drawer/1")
    assert ask(folder, "what is the note?", "--launch", "desk", *both).out == "There is a note.\n"
    done = ask(folder, "hm", "--launch", "desk", "--attach", "desk=desk://nothing", "--format", "json")
    assert done.code == 5 and done.error["code"] == "not_found"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["q", "--config", "no.json"], "there is no file no.json"),
        (["q", "--model", "nothing"], "there is no model 'nothing'"),
        (["q", "--model", "cloud:x"], "is not a model"),
        (["q", "--allow", "__x"], "is not a pattern for tools"),
        (["q", "--allow", "dsk__add"], "--allow names no server 'dsk'; did you mean desk?"),
        (["q", "--deny", "other"], "--deny names no server 'other'; there are desk"),
        (["q", "--launch", "dask"], "--launch names no server 'dask'; did you mean desk?"),
        (["q", "--attach", "desk"], "is not of the form SERVER=URI"),
        (["q", "--policy", "no.toml"], "there is no file no.toml"),
        (["q", "--interactive"], "--interactive needs a terminal"),
        ([" "], "the question is empty"),
    ],
)
def test_what_is_wrong_with_the_command_is_said(more: list[str], said: str, folder: Path) -> None:
    done = run(folder, *words(folder), *more, "--format", "json")
    assert done.code == 1 and said in done.error["message"]


def test_without_a_model_it_says_how_to_get_one(folder: Path) -> None:
    done = run(folder, "ask", "hello", "--config", str(folder / "mcp.json"))
    assert done.code == 1 and "OPENAI_API_KEY" in done.err and "models.toml" in done.err


def test_without_servers_it_says_how_to_get_some(folder: Path) -> None:
    (folder / "mcp.json").unlink()
    done = run(folder, "ask", "hello", "--model", f"scripted:{folder / 'talk.json'}")
    assert done.code == 1 and "dovetail add" in done.err


def test_a_model_that_is_not_there_is_unreachable(folder: Path) -> None:
    config = str(folder / "mcp.json")
    Path(config).write_text('{"mcpServers": {}}')
    model = "openai:none@http://127.0.0.1:9/v1"
    done = run(folder, "ask", "hello", "--config", config, "--model", model, "--format", "json")
    assert done.code == 4 and done.error["code"] == "unreachable"


@pytest.mark.parametrize(
    ("status", "code", "said"), [(401, 3, "unauthorized"), (500, 5, "model_failed"), (429, 5, "model_failed")]
)
async def test_a_model_that_says_no_has_its_exit_code(status: int, code: int, said: str, folder: Path) -> None:
    (folder / "mcp.json").write_text('{"mcpServers": {}}')
    async with endpoint(failure(status, "not today")) as told:
        words = ["ask", "hello", "--config", str(folder / "mcp.json"), "--model", f"openai:tiny@{told.url}/v1"]
        done = await asyncio.to_thread(run, folder, *words, "--format", "json")
    assert (done.code, done.error["code"]) == (code, said) and "not today" in done.error["message"]


def test_no_answer_is_an_error(folder: Path) -> None:
    (folder / "talk.json").write_text('{"": [{"say": " "}]}')
    done = ask(folder, "hello", "--launch", "desk", "--format", "json")
    assert (done.code, done.error["code"]) == (5, "invalid_answer") and "it was empty" in done.error["message"]


@pytest.mark.skipif(sys.platform == "win32", reason="descriptors are closed by a POSIX shell")
def test_nowhere_to_put_the_answer(folder: Path) -> None:
    line = shlex.join([sys.executable, "-m", "dovetail.cli", *words(folder, "hello")])
    env = environment(XDG_CONFIG_HOME=str(folder / "user"), HOME=str(folder))
    done = subprocess.run(["sh", "-c", f"{line} >&-"], stderr=subprocess.PIPE, text=True, env=env, timeout=60)
    assert done.returncode == 1 and "stdout is closed" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="a pseudo-terminal is POSIX's")
def test_a_person_is_asked_who_wants_to_be(folder: Path) -> None:
    command = [sys.executable, "-m", "dovetail.cli", *words(folder, "add it up", "--interactive")]
    with Emulated(command, environment(XDG_CONFIG_HOME=str(folder / "user"), HOME=str(folder))) as terminal:
        terminal.until('May "desk" be started?', "because…:")
        terminal.type("y\r")
        terminal.until('May the tool "add" of "desk" be called?')
        terminal.until_at_cursor("  [n] no  [w] no, because…:")
        terminal.type("e\r")
        terminal.answer("  | ", '{"a": 1}\r')
        terminal.type(".\r")
        terminal.until("arguments, edited:")
        terminal.until_at_cursor("  [n] no  [w] no, because…:")
        terminal.type("y\r")
        terminal.until("It is done.")
        assert terminal.end() == 0


@pytest.mark.skipif(sys.platform == "win32", reason="a pseudo-terminal is POSIX's")
def test_ctrl_c_reaches_the_server(folder: Path) -> None:
    asked = words(folder, "sleep", "--launch", "desk", "--allow", "desk")
    command = [sys.executable, "-m", "dovetail.cli", *asked]
    with Emulated(command, environment(XDG_CONFIG_HOME=str(folder / "user"), HOME=str(folder))) as terminal:
        terminal.until("10% sleep: sleeping")
        terminal.type("\x03")
        assert terminal.end() == 130
        assert "Cancelled." in terminal.screen and "Traceback" not in terminal.transcript
    assert (folder / "notes").read_text() == "cancelled"
