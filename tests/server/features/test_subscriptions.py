"""Telling a client of changes: unasked on the handshake era, to those who subscribed on the envelope era."""

import asyncio
from typing import Any

import pytest

from dovetail import Server
from dovetail.protocol.revisions import HANDSHAKE, REVISIONS
from dovetail.transports.base import HIGH_WATER
from tests.support.peer import notification
from tests.support.served import Caller, served
from tests.support.waiting import settled

EACH_HANDSHAKE = pytest.mark.parametrize("name", HANDSHAKE)
ID = "io.modelcontextprotocol/subscriptionId"
EVERYTHING = {"toolsListChanged": True, "promptsListChanged": True, "resourcesListChanged": True}
TOOLS_CHANGED = "notifications/tools/list_changed"


def offering() -> Server:
    server = Server("s")
    server.tool(lambda: None, name="tool")
    server.prompt(lambda: "x", name="prompt")
    server.resource("x://y")(lambda: "x")
    return server


async def subscribed(caller: Caller, **wanted: Any) -> int:
    """A subscription that was acknowledged; its id."""
    id = caller.begin("subscriptions/listen", notifications=wanted)
    assert (await caller.hear("notifications/subscriptions/acknowledged"))["_meta"] == {ID: id}
    return id


class TestHandshake:
    @EACH_HANDSHAKE
    async def test_every_change_is_told(self, name: str):
        server = offering()
        async with served(server, name) as caller:
            await caller.result("ping")
            changes = [
                ("tools", lambda: server.tool(lambda: None, name="new")),
                ("tools", lambda: server.remove_tool("new")),
                ("prompts", lambda: server.prompt(lambda: "x", name="new")),
                ("prompts", lambda: server.remove_prompt("new")),
                ("resources", lambda: server.resource("x://new")(lambda: "x")),
                ("resources", lambda: server.resource("x://{new}")(lambda new: new)),
                ("resources", lambda: server.remove_resource("x://{new}")),
            ]
            for kind, change in changes:
                change()
                assert await caller.next() == {
                    "jsonrpc": "2.0",
                    "method": f"notifications/{kind}/list_changed",
                }

    @EACH_HANDSHAKE
    async def test_but_not_before_the_client_is_ready(self, name: str):
        server = offering()
        async with served(server, name, opened=False) as caller:
            hello = {"protocolVersion": name, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
            server.remove_tool("tool")
            await caller.result("initialize", **hello)
            server.remove_prompt("prompt")
            await settled()
            await caller.result("ping")
            assert caller.heard == []
            caller.send(notification("notifications/initialized"))
            await caller.result("ping")
            server.remove_resource("x://y")
            await caller.hear("notifications/resources/list_changed")

    async def test_changes_of_one_moment_are_told_once(self):
        server = offering()
        async with served(server, HANDSHAKE[-1]) as caller:
            await caller.result("ping")
            for n in range(100):
                server.tool(lambda: None, name=f"t{n}")
            server.remove_prompt("prompt")
            await settled()
            await caller.result("ping")
            assert [message["method"] for message in caller.heard] == [
                "notifications/tools/list_changed",
                "notifications/prompts/list_changed",
            ]

    async def test_a_client_that_does_not_read_is_told_once_when_it_does(self):
        server = offering()
        server.tool(lambda: "x" * (HIGH_WATER + 1), name="big")
        async with served(server, HANDSHAKE[-1]) as caller:
            await caller.result("ping")
            caller.channel.pause()
            id = caller.begin("tools/call", name="big", arguments={})
            while not caller.channel.other.congested:
                await asyncio.sleep(0)
            for n in range(50):
                server.tool(lambda: None, name=f"t{n}")
                await settled(3)
            caller.channel.resume()
            await caller.answer_to(id)
            await caller.hear(TOOLS_CHANGED)
            await caller.result("ping")
            assert caller.heard == []


class TestEnvelope:
    async def test_the_acknowledgement_names_what_will_be_told(self):
        server = Server("s")
        server.tool(lambda: None, name="tool")
        async with served(server) as caller:
            id = caller.begin("subscriptions/listen", notifications=EVERYTHING)
            assert await caller.next() == notification(
                "notifications/subscriptions/acknowledged",
                _meta={ID: id},
                notifications={"toolsListChanged": True},
            )

    async def test_a_change_is_told_to_the_subscriptions_that_want_it(self):
        server = offering()
        async with served(server) as caller:
            tools = await subscribed(caller, toolsListChanged=True)
            both = await subscribed(caller, toolsListChanged=True, promptsListChanged=True)
            await subscribed(caller, promptsListChanged=False)
            server.remove_tool("tool")
            assert [await caller.next(), await caller.next()] == [
                notification(TOOLS_CHANGED, _meta={ID: id}) for id in (tools, both)
            ]
            server.remove_prompt("prompt")
            assert (await caller.hear("notifications/prompts/list_changed"))["_meta"] == {ID: both}
            await caller.result("tools/list")
            assert caller.heard == []

    async def test_without_a_subscription_nothing_is_told(self):
        server = offering()
        async with served(server) as caller:
            server.remove_tool("tool")
            await settled()
            await caller.result("tools/list")
            assert caller.heard == []

    async def test_one_that_is_cancelled_hears_no_more(self):
        server = offering()
        async with served(server) as caller:
            id = await subscribed(caller, toolsListChanged=True)
            caller.cancel(id)
            await caller.result("tools/list")
            server.remove_tool("tool")
            await settled()
            await caller.result("tools/list")
            assert caller.heard == []

    async def test_also_when_the_change_comes_at_the_same_moment(self):
        server = offering()
        async with served(server) as caller:
            id = await subscribed(caller, toolsListChanged=True)
            server.remove_tool("tool")
            caller.cancel(id)
            await settled()
            await caller.result("tools/list")
            assert caller.heard == []

    async def test_a_change_after_the_last_one_left_is_still_a_change(self):
        server = offering()
        async with served(server) as caller:
            await subscribed(caller, toolsListChanged=True)
            server.remove_tool("tool")
            await caller.hear(TOOLS_CHANGED)
            server.tool(lambda: None, name="again")
            await caller.hear(TOOLS_CHANGED)

    async def test_params_that_do_not_fit_are_invalid(self):
        async with served(offering()) as caller:
            for params in ({}, {"notifications": []}, {"notifications": {"toolsListChanged": "yes"}}):
                assert (await caller.refusal("subscriptions/listen", **params))["code"] == -32602


class TestGracefulEnd:
    async def test_every_subscription_is_closed_with_a_result(self):
        """2026-07-28 subscriptions, "Graceful Closure", and cancellation: both a result and a notification."""
        from dovetail.server.connection import ConnectionRunner
        from dovetail.transports.memory import memory_pair
        from dovetail.types.capabilities import ClientCapabilities

        ours, theirs = memory_pair()
        serving = ConnectionRunner(offering()._core, theirs, 5.0)
        running = asyncio.create_task(serving.run())
        caller = Caller(ours, next(reversed(REVISIONS)), ClientCapabilities())
        ids = [await subscribed(caller, toolsListChanged=True) for _ in range(2)]
        serving.stop()
        for id in ids:
            answer = await caller.answer_to(id)
            assert answer["result"]["_meta"][ID] == id
            assert answer["result"]["resultType"] == "complete"
        cancelled = [message["params"] for message in caller.heard]
        assert cancelled == [{"_meta": {ID: id}, "requestId": id} for id in ids]
        await running
        await ours.close()
