"""What is sent in any test is judged: each door is listened to, and what is wrong is found."""

import contextlib
import json
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from dovetail import Client, Server
from dovetail.types.content import Text
from dovetail.types.tools import CallToolResult
from tests.conftest import TRAFFIC
from tests.matrix.connections import STRUCTURED, Place, Transport, reached
from tests.support.traffic import Listener, Traffic

NOT_RUN = "NOT RUN: traffic is not listened to. Set DOVETAIL_SPEC to a folder that holds <revision>/schema.json."
HERE: list[Transport] = ["memory", "http", "sse", "websocket", "unix", "tcp"]
"""The transports over which both sides are in this process."""


@pytest.fixture
def traffic(request: pytest.FixtureRequest) -> Iterator[Traffic]:
    if TRAFFIC not in request.config.stash:
        print(NOT_RUN)
        pytest.skip(NOT_RUN)
    found = request.config.stash[TRAFFIC]
    assert found.verdict() == []
    yield found
    found.verdict()


def odd(_: object = None) -> Server:
    server = Server("odd")

    @server.tool
    def wrong() -> CallToolResult:
        return CallToolResult([Text("x", extra={"vendorMark": 1})])

    return server


@contextlib.asynccontextmanager
async def connected(transport: Transport, revision: str) -> AsyncIterator[Client]:
    async with reached(Place(transport, odd, ())) as (where, *_), Client(where, revision=revision) as client:
        yield client


@pytest.mark.parametrize("transport", HERE)
async def test_what_a_server_sends_is_judged(traffic: Traffic, transport: Transport, revision: str) -> None:
    async with connected(transport, revision) as client:
        await client.tools()
        assert traffic.verdict() == []
        await client.call("wrong")
        assert any("vendorMark" in problem for problem in traffic.verdict())


@pytest.mark.parametrize("transport", HERE)
async def test_what_a_client_sends_is_judged(traffic: Traffic, transport: Transport, revision: str) -> None:
    async with connected(transport, revision) as client:
        assert traffic.verdict() == []
        await client.request("tools/list", {"vendorMark": 1})
        [problem] = traffic.verdict()
        assert problem.startswith("client: ") and "vendorMark" in problem


def heard(traffic: Traffic, *messages: Any, agreed: str = "2025-11-25") -> list[str]:
    """What is wrong with messages that a server got and sent in turn."""
    listener = Listener(traffic, "server", agreed)
    for number, message in enumerate(messages):
        listener("sent" if number % 2 else "received", json.dumps(message).encode())
    return listener.judged()


def test_an_answer_is_held_against_its_request(traffic: Traffic) -> None:
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    assert heard(traffic, asked, {"jsonrpc": "2.0", "id": 1, "result": {"tools": []}}) == []
    assert heard(traffic, asked, {"jsonrpc": "2.0", "id": 1, "result": {"prompts": []}}) != []


def test_a_peer_may_do_anything(traffic: Traffic) -> None:
    refusal = {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "no"}}
    for nonsense in (
        [],
        5,
        {"id": {}},
        {"id": [], "method": "x", "params": {"_meta": {"a": 5}}},
        {"method": 5, "id": 1},
    ):
        assert heard(traffic, nonsense, refusal) == []


def test_what_belongs_to_another_revision_is_found(traffic: Traffic) -> None:
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "x"}}
    answer = {"jsonrpc": "2.0", "id": 1, "result": {"content": [], "structuredContent": {}}}
    assert [bool(heard(traffic, asked, answer, agreed=name)) for name in ("2025-03-26", STRUCTURED[0])] == [True, False]


def test_a_flood_is_noted_only_so_far(traffic: Traffic, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.support.traffic.MOST_MESSAGES", 10)
    listener = Listener(traffic, "server")
    for _ in range(25):
        listener("received", b"{}")
    assert listener.left_out == 15
    listener.judged()
    listener("received", b"{}")
    assert listener.left_out == 15


OTHER_PROCESS = """
from dovetail import Server
from dovetail.types.content import Text
from dovetail.types.tools import CallToolResult

server = Server("odd")

@server.tool
def wrong() -> CallToolResult:
    return CallToolResult([Text("x", extra={"vendorMark": 1})])

server.run()
"""


async def test_what_a_process_sends_is_judged(traffic: Traffic, revision: str, tmp_path: Path) -> None:
    script = tmp_path / "odd.py"
    script.write_text(OTHER_PROCESS)
    async with Client([sys.executable, str(script)], revision=revision) as client:
        await client.tools()
        assert traffic.verdict() == []
        await client.call("wrong")
    problems = traffic.verdict()
    assert problems and all(problem.startswith("server: ") and "vendorMark" in problem for problem in problems)
