"""The command line of the official inspector with our server over HTTP: both eras, and the old transport."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interop.peers import PROGRAMS, inspector_command
from tests.support.http import serving_program

pytestmark = pytest.mark.interop

WAYS = {"modern": ("/mcp", "modern"), "legacy": ("/mcp", "legacy"), "sse": ("/sse", "legacy")}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving_program(PROGRAMS / "dovetail_server.py", "--http") as server:
        yield server.url


@pytest.fixture(params=WAYS)
def inspect(request: pytest.FixtureRequest, url: str, tmp_path: Path) -> Any:
    path, era = WAYS[request.param]
    return asking(url + path, era, tmp_path)


def asking(url: str, era: str, home: Path) -> Any:
    """A function that asks one thing and gives the result; what it remembers of servers stays in a home of its own."""

    def ask(*words: str, code: int = 0) -> Any:
        command = [
            *inspector_command(),
            url,
            "--protocol-era",
            era,
            "--format",
            "json",
            "-q",
            "--method",
            *words,
        ]
        environment = {**os.environ, "HOME": str(home)}
        done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False, env=environment)
        assert done.returncode == code, done.stderr
        return json.loads(done.stdout)["result"]

    return ask


@pytest.mark.parametrize("era", ["modern", "legacy"])
@pytest.mark.parametrize("mode", ["--json", "--stateless"])
def test_a_server_that_answers_in_json_or_keeps_no_sessions(mode: str, era: str, tmp_path: Path) -> None:
    with serving_program(PROGRAMS / "dovetail_server.py", "--http", mode) as server:
        ask = asking(f"{server.url}/mcp", era, tmp_path)
        assert ask("tools/call", "--tool-name", "count", "--tool-arg", "steps=3")["content"][0]["text"] == "counted"


def test_the_inspector_lists_and_calls_tools(inspect: Any) -> None:
    names = [tool["name"] for tool in inspect("tools/list")["tools"]]
    assert names[:2] == ["add", "point"]
    assert len(names) == 17
    said = inspect("tools/call", "--tool-name", "point", "--tool-arg", "x=1")
    assert said["structuredContent"] == {"x": 1, "y": 0.5}
    assert inspect("tools/call", "--tool-name", "fail", code=5)["content"][0]["text"] == "no such luck"


def test_the_inspector_reads_resources_and_prompts(inspect: Any) -> None:
    assert [item["uri"] for item in inspect("resources/list")["resources"]] == ["note://static", "note://bytes"]
    assert inspect("resources/read", "--uri", "note://soup/4")["contents"][0]["text"] == "soup, page 4"
    assert [item["name"] for item in inspect("prompts/list")["prompts"]] == ["review", "chat"]
    [message] = inspect("prompts/get", "--prompt-name", "review", "--prompt-args", "code=x")["messages"]
    assert message["content"]["text"] == "Review this python: x"
