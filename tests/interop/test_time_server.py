"""Our client with mcp-server-time, which speaks both eras."""

import re
from collections.abc import Iterator

import pytest

from dovetail import Client, NotFound, RemoteError, ToolFailed
from dovetail.client.blocking import BlockingClient
from tests.interop.peers import ENVELOPE, HANDSHAKE, tool_command

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module", params=[None, HANDSHAKE[-1]], ids=["probe", HANDSHAKE[-1]])
def client(request: pytest.FixtureRequest) -> Iterator[BlockingClient]:
    command = tool_command("mcp-server-time", "--local-timezone", "Europe/Oslo")
    with Client.blocking(command, revision=request.param, timeout=50) as client:
        assert client.revision == (request.param or ENVELOPE)
        yield client


def test_tools_of_the_time_server_name_the_local_time_zone(client: BlockingClient) -> None:
    assert client.server is not None
    assert client.server.name == "mcp-time"
    tools = {tool.name: tool for tool in client.tools()}
    assert set(tools) == {"get_current_time", "convert_time"}
    described = tools["get_current_time"].input_schema["properties"]["timezone"]["description"]
    assert "Europe/Oslo" in described


def test_the_time_of_a_place(client: BlockingClient) -> None:
    now = client.call("get_current_time", timezone="Asia/Kathmandu").data
    assert now["timezone"] == "Asia/Kathmandu"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+05:45", now["datetime"])


def test_a_time_carried_from_place_to_place(client: BlockingClient) -> None:
    times = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
    converted = client.call("convert_time", times).data
    assert converted["time_difference"] == "+9.0h"
    assert converted["target"]["datetime"].endswith("T21:00:00+09:00")


def test_a_place_that_is_not_there(client: BlockingClient) -> None:
    with pytest.raises(ToolFailed, match="Invalid timezone"):
        client.call("get_current_time", timezone="Nowhere/Land")


def test_an_unknown_tool(client: BlockingClient) -> None:
    with pytest.raises(RemoteError) as caught:
        client.call("stop_the_clock")
    assert caught.value.code == -32602


async def test_a_server_without_subscriptions_says_so() -> None:
    async with Client(tool_command("mcp-server-time")) as client:
        assert client.revision == ENVELOPE
        with pytest.raises(NotFound):
            await anext(client.watch(tools=True))
