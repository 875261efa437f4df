"""What a shell offers when a person presses Tab."""

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from dovetail.cli.options.candidates import FILES, candidates
from dovetail.cli.parser import COMMANDS
from tests.cli.invoke import COMMAND, dovetail, environment


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
        ("run --re", ["--reload"]),
        ("shell-completion z", ["zsh"]),
        ("login ", []),
        ("import cu", ["cursor"]),
        ("add x u --file ", [FILES]),
        ("logout x --a", ["--account", "--all"]),
        ("ping x --acc", ["--account"]),
        ("nonsense ", []),
    ],
)
def test_commands_options_and_values_are_completed(line: str, offered: list[str]) -> None:
    assert candidates(line.split(" ")) == offered


def test_all_commands_are_completed() -> None:
    assert set(COMMANDS) <= set(candidates([""]))


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
