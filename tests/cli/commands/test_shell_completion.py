"""What a shell offers when a person presses Tab."""

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from dovetail.cli.options.candidates import FILES, NEW_WORD, candidates
from dovetail.cli.options.known_names import MAX_TARGETS, known_names, names_file, remember_names
from dovetail.cli.parser import COMMANDS
from dovetail.cli.tasks.left_tasks import keep_task
from dovetail.client.tasks.reference import make_reference
from tests.cli.invoke import COMMAND, DESK, dovetail, environment


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("r", ["run", "read", "remove"]),
        ("--v", ["--version"]),
        ("call ", [FILES]),
        ("call --timeout 5 ", [FILES]),
        ("call x --form", ["--format"]),
        ("call x add --format ", ["text", "json"]),
        ("call x add --format j", ["json"]),
        ("call x ", []),
        ("list x ", ["tools", "resources", "templates", "prompts"]),
        ("list x tools p", ["prompts"]),
        ("list x --trace t", ["tools", "templates"]),
        ("list x --log d", ["debug"]),
        ("read x u --output ", [FILES]),
        ("run ", [FILES]),
        ("run --re", ["--reload", "--reload-dir"]),
        ("shell-completion z", ["zsh"]),
        ("login ", []),
        ("import cu", ["cursor"]),
        ("add x u --file ", [FILES]),
        ("logout x --a", ["--account", "--all"]),
        ("ping x --acc", ["--account"]),
        ("tasks ", ["list", "get", "wait", "cancel"]),
        ("tasks wait ", [FILES]),
        ("nonsense ", []),
    ],
)
def test_commands_options_and_values_are_completed(line: str, offered: list[str]) -> None:
    assert candidates(line.split(" ")) == offered


def test_all_commands_are_completed() -> None:
    assert set(COMMANDS) <= set(candidates([""]))


def test_names_that_were_listed_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert candidates(["call", DESK, ""]) == []
    assert dovetail("list", DESK).code == 0
    assert candidates(["call", DESK, "--timeout", "5", "p"]) == ["picture"]
    assert candidates(["read", os.path.relpath(DESK), "desk://n"]) == ["desk://note"]
    assert candidates(["prompt", DESK, ""]) == ["letter"]
    assert candidates(["list", DESK, "t"]) == ["tools", "templates", "think"]
    assert candidates(["call", "other.py", "p"]) == []
    assert DESK not in names_file().read_text() and names_file().stat().st_mode & 0o77 == 0


def test_a_call_remembers_the_names_of_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert dovetail("call", DESK, "add", "a=1").code == 0
    assert "add" in candidates(["call", DESK, "a"])


def test_tasks_that_were_left_at_a_target_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert candidates(["tasks", "wait", "x", ""]) == []
    for id in ("one", "two", "$(reboot)"):
        keep_task("x", "render", make_reference(id, "render", "2026-07-28"), None)
    assert candidates(["tasks", "wait", "x", ""]) == ["one", "two"]
    assert candidates(["tasks", "wait", "x", "t"]) == ["two"]
    assert candidates(["tasks", "wait", "y", ""]) == []


def test_a_name_that_a_shell_would_run_is_not_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    remember_names("x", "tools", ["ok", "$(reboot)", "a;b", "a b", "-rf", "a\nb", "`id`", "~x", "x" * 300])
    assert known_names("x", "tools") == ["ok"]


def test_names_are_bounded_and_a_damaged_file_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for number in range(MAX_TARGETS + 5):
        remember_names(f"target{number}", "tools", ["a"])
    assert known_names("target4", "tools") == [] and known_names("target5", "tools") == ["a"]
    names_file().write_text('{"x": 5}')
    assert known_names("target5", "tools") == []
    remember_names("target5", "tools", ["b"])
    assert known_names("target5", "tools") == ["b"]


def test_powershell_marks_a_new_word() -> None:
    assert candidates(["call", "x", "add", "--format", NEW_WORD]) == ["text", "json"]
    assert "'@new'" in dovetail("shell-completion", "powershell").out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_code_is_read_by_its_shell(shell: str) -> None:
    code = dovetail("shell-completion", shell).out
    assert "dovetail __complete" in code
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    assert subprocess.run([shell, "-n"], input=code.encode(), capture_output=True, timeout=60).stderr == b""


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_completes(tmp_path: Path) -> None:
    (tmp_path / "dovetail").write_text(f'#!/bin/sh\nexec {shlex.join(COMMAND)} "$@"\n')
    (tmp_path / "dovetail").chmod(0o755)
    (tmp_path / "my server.py").touch()
    code = dovetail("shell-completion", "bash").out + (
        'complete_line() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=();'
        ' _dovetail; printf "%s\\n" "${COMPREPLY[@]}"; }\n'
        'complete_line dovetail rea\ncomplete_line dovetail call x add --format ""\ncomplete_line dovetail run "my"\n'
    )
    env = environment()
    env["PATH"] = f"{tmp_path}:{env['PATH']}"
    done = subprocess.run(["bash"], input=code.encode(), capture_output=True, timeout=60, env=env, cwd=tmp_path)
    assert done.stdout.decode().splitlines() == ["read", "text", "json", "my server.py"], done.stderr
