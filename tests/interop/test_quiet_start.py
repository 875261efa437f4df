"""Servers on version 1 of the official SDK report `server/discover` on stderr, with a hundred lines: not shown."""

import shlex

import pytest

from dovetail import Client
from tests.cli.invoke import dovetail
from tests.interop.peers import python_program


def test_a_command_shows_nothing_of_the_start_unless_it_is_traced() -> None:
    target = shlex.join(python_program("mcp1", "mcp1_plain.py"))
    quiet = dovetail("list", target)
    assert quiet.code == 0
    assert "Failed to validate" not in quiet.err
    assert len(quiet.err.splitlines()) < 10, "one line for each list that was asked for"
    traced = dovetail("list", target, "--trace")
    assert "Failed to validate request" in traced.err


async def test_a_client_shows_nothing_of_the_start(capfd: pytest.CaptureFixture[str]) -> None:
    async with Client(python_program("mcp1", "mcp1_plain.py")) as client:
        assert await client.tools()
    assert "Failed to validate" not in capfd.readouterr().err
