"""The author's loop from an empty folder to every program and back: init, dev, inspect, install, call, uninstall."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from dovetail import Client
from dovetail.config.reader import read_config
from tests.cli.commands.test_install import PROGRAMS, existing, load, run
from tests.cli.dev.test_dev import Piped, save

GREET = '''

@server.tool
def greet(name: str) -> str:
    """Greet a guest."""
    return f"Hello {name}"
'''


def change_while_it_runs(file: Path) -> None:
    """Add a tool to a server that `dovetail dev` runs, and call it there."""
    dev = Piped(file)
    try:
        dev.until("/help the commands")
        save(file, file.read_text().replace("\n\ndef main()", f"{GREET}\n\ndef main()"))
        dev.until("+ greet(name: str) -> str")
        dev.type("greet name=Ann")
        dev.until("Hello Ann")
    finally:
        dev.kill()


async def call_what_is_installed(file: Path, home: Path) -> str:
    """Start the server as the program's file says, and call the new tool."""
    (spec,) = (entry.spec for entry in read_config(file, {"HOME": str(home)}).entries if entry.key == "inn")
    assert spec is not None
    async with Client(list(spec.command), env=dict(spec.env)) as client:
        return (await client.call("greet", name="Eve")).text


@pytest.mark.slow
def test_a_server_goes_from_an_empty_folder_into_every_program_and_out_again(tmp_path: Path) -> None:
    home, project = tmp_path / "home", tmp_path / "inn"
    home.mkdir()
    assert run(home, tmp_path, "init", "inn").code == 0
    file = project / "src" / "inn" / "server.py"
    change_while_it_runs(file)

    inspected = run(home, project, "inspect", str(file))
    assert inspected.code == 0
    assert "greet(name: str) -> str" in inspected.out
    assert run(home, project, "call", str(file), "greet", "name=Ann").out == "Hello Ann\n"

    before = {path: existing(home / path, key) for _, path, key, _ in PROGRAMS}
    into = [word for program, *_ in PROGRAMS for word in ("--into", program)]
    assert run(home, project, "install", str(file), "--name", "inn", "--yes", *into).code == 0
    for _, path, key, _ in PROGRAMS:
        servers: dict[str, Any] = load(home / path)[key]
        assert set(servers) == {"old", "inn"}, path
    for path in (".cursor/mcp.json", ".codex/config.toml", ".config/goose/config.yaml"):
        assert asyncio.run(call_what_is_installed(home / path, home)) == "Hello Eve"

    out_of = [word for program, *_ in PROGRAMS for word in ("--from", program)]
    assert run(home, project, "uninstall", "inn", "--yes", *out_of).code == 0
    assert {path: (home / path).read_bytes() for path in before} == before
