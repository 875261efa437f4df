"""What 2025-11-25 asks of those who have no tasks, or tasks for some requests only."""

from typing import Any

import pytest

from dovetail import Client, Server
from tests.support.scripted import Scripted, welcome
from tests.support.served import served

REVISION = "2025-11-25"
TOOL = {"name": "slow", "inputSchema": {"type": "object"}}


def slow() -> Server:
    server = Server("slow")

    @server.tool(name="slow")
    def work() -> str:
        return "done"

    return server


async def test_a_server_without_tasks_does_not_declare_them() -> None:
    async with served(slow(), REVISION, opened=False) as caller:
        assert "tasks" not in (await caller.open())["capabilities"]


@pytest.mark.parametrize(
    ("handlers", "requests"),
    [
        ({}, None),
        ({"on_elicit": lambda _: None}, {"elicitation": {"create": {}}}),
        ({"on_sample": lambda _: ""}, {"sampling": {"createMessage": {}}}),
    ],
    ids=["nothing", "elicitation", "sampling"],
)
async def test_a_client_declares_tasks_for_what_it_can_be_asked(handlers: Any, requests: Any) -> None:
    scripted = Scripted(initialize=welcome(protocolVersion=REVISION))
    async with Client(scripted, revision=REVISION, **handlers):
        pass
    declared = scripted.asked[0]["params"]["capabilities"].get("tasks")
    assert declared == (None if requests is None else {"list": {}, "cancel": {}, "requests": requests})


async def test_a_server_without_tasks_serves_the_request_as_any_other() -> None:
    async with served(slow(), REVISION) as caller:
        result = await caller.result("tools/call", name="slow", arguments={}, task={"ttl": 1000})
    assert result["content"] == [{"type": "text", "text": "done"}]
    assert "task" not in result


@pytest.mark.parametrize("support", [None, "forbidden", "optional"])
async def test_a_client_asks_for_no_task(support: str | None) -> None:
    """Whatever the tool says, for the server has not declared tasks."""
    tool: dict[str, Any] = {**TOOL, **({"execution": {"taskSupport": support}} if support else {})}
    scripted = Scripted(
        initialize=welcome(protocolVersion=REVISION), tools_list={"tools": [tool]}, tools_call={"content": []}
    )
    async with Client(scripted, revision=REVISION) as client:
        await client.tools()
        await client.call("slow")
    [called] = [message for message in scripted.asked if message.get("method") == "tools/call"]
    assert "task" not in called["params"]
