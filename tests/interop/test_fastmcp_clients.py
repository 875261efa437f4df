"""Clients of FastMCP see the bare values that our tools return, and schemas in the form that they know."""

import functools
import json
import subprocess
import sys
from typing import Any

import pytest

from tests.interop.peers import PROGRAMS, python_program

pytestmark = [pytest.mark.interop, pytest.mark.parametrize("peer", ["fastmcp2", "fastmcp3"])]


@functools.cache
def seen_by(peer: str) -> dict[str, Any]:
    """What a client printed of its calls."""
    server = [sys.executable, str(PROGRAMS / "values_server.py")]
    command = [*python_program(peer, "fastmcp_client.py"), *server]
    done = subprocess.run(command, capture_output=True, text=True, timeout=55, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("tool", "value"),
    [("add", 3), ("text", "hello"), ("numbers", [1, 2]), ("points", [{"x": 1, "y": 0}]), ("maybe", None)],
)
def test_a_fastmcp_client_unwraps_the_value_of_a_tool(peer: str, tool: str, value: Any) -> None:
    assert seen_by(peer)[tool]["data"] == value


def test_a_fastmcp_client_gets_nothing_from_a_tool_that_returns_nothing(peer: str) -> None:
    assert seen_by(peer)["nothing"] == {"input": seen_by(peer)["text"]["input"], "data": None, "blocks": []}


def test_a_fastmcp_client_gets_text_only_from_a_tool_without_structured_output(peer: str) -> None:
    plain = seen_by(peer)["plain"]
    assert (plain["data"], plain["blocks"]) == (None, ["text"])


def test_a_tool_without_arguments_has_properties_for_a_fastmcp_client(peer: str) -> None:
    assert seen_by(peer)["text"]["input"] == {"type": "object", "properties": {}, "additionalProperties": False}
