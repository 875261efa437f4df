"""The page about the commands tells the truth: its console blocks are run and print what it says."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.cli.invoke import COMMAND, ROOT, environment

PAGE = (ROOT / "docs" / "commands.md").read_text()
BLOCKS = re.findall(r"^```console\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
SERVER = re.search(r"^```python\n(# inn\.py\n.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.splitlines()[0][2:32])
def test_the_block_prints_what_the_page_says(block: str, tmp_path: Path) -> None:
    assert SERVER is not None
    (tmp_path / "inn.py").write_text(SERVER[1])
    command = tmp_path / "bin" / "dovetail"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {shlex.join(COMMAND)} "$@"\n')
    command.chmod(0o755)
    # A page may show commands that change a user's settings: not those of whoever runs the tests.
    env = environment(HOME=str(tmp_path / "home"), XDG_CONFIG_HOME=str(tmp_path / "settings"))
    env["PATH"] = f"{command.parent}:{env['PATH']}"
    printed = ""
    for line in block.splitlines():
        if line.startswith("$ "):
            done = subprocess.run(
                ["bash", "-c", f"exec 2>&1; {line[2:]}"],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=60,
                cwd=tmp_path,
                env=env,
            )
            printed += f"{line}\n{done.stdout}"
    assert printed == block


def test_every_command_is_on_the_page() -> None:
    from dovetail.cli.parser import COMMANDS

    for command in COMMANDS:
        assert re.search(rf"\b{command}\b", PAGE), command
