"""Requirements on lists, cursors, what may be kept, and what is told to whom."""

import asyncio
import contextlib
from typing import Any

import pytest

from dovetail import Client, Context, LocalError, Server
from dovetail.protocol.envelope import LOG_LEVEL, SUBSCRIPTION_ID
from dovetail.server.connection import ConnectionRunner
from dovetail.transports.memory import memory_pair
from dovetail.types.capabilities import ClientCapabilities
from tests.matrix.connections import on_envelope
from tests.support.peer import notification
from tests.support.scripted import SILENCE, Scripted, discovery, modern
from tests.support.served import Caller, served

ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
STAMP = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}


def tool(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "inputSchema": {"type": "object"}, **more}


def many(count: int = 5) -> Server:
    server = Server("many", page_size=2)
    for number in range(count):
        server.tool(lambda: "x", name=f"tool-{number}")
    return server


@pytest.mark.parametrize("sizes", [[1, 1, 1], [0, 2, 0, 1], [3], [2, 0]])
async def test_pages_may_have_any_size(sizes: list[int]) -> None:
    """Even none at all: only a missing cursor ends the list."""
    names = iter(f"t{number}" for number in range(sum(sizes)))
    pages = [[tool(next(names)) for _ in range(size)] for size in sizes]

    def listed(message: dict[str, Any]) -> dict[str, Any]:
        number = int(message["params"].get("cursor", "0"))
        more = {"nextCursor": str(number + 1)} if number + 1 < len(pages) else {}
        return {**STAMP, "tools": pages[number], **more}

    async with Client(modern(tools_list=listed)) as client:
        assert [each.name for each in await client.tools()] == [f"t{number}" for number in range(sum(sizes))]


@pytest.mark.parametrize("cursor", ["", " ", "2", '{"offset": 1}', "☃", "a" * 5000])
async def test_cursors_go_back_as_they_came(cursor: str) -> None:
    def listed(message: dict[str, Any]) -> dict[str, Any]:
        first = "cursor" not in message["params"]
        return {**STAMP, "tools": [tool("a" if first else "b")], **({"nextCursor": cursor} if first else {})}

    server = modern(tools_list=listed)
    async with Client(server) as client:
        assert [each.name for each in await client.tools()] == ["a", "b"]
    asked = [message["params"] for message in server.asked if message.get("method") == "tools/list"]
    assert [params.get("cursor") for params in asked] == [None, cursor]


async def test_an_empty_cursor_is_a_cursor(revision: str) -> None:
    """To a client as in the test above; to a server it is one that was never given."""
    async with served(many(3), revision) as caller:
        assert (await caller.refusal("tools/list", cursor=""))["code"] == -32602


@on_envelope
async def test_all_pages_have_the_same_scope(revision: str) -> None:
    async with served(many(), revision) as caller:
        scopes: list[str] = []
        more: dict[str, Any] = {}
        while True:
            page = await caller.result("tools/list", **more)
            scopes.append(page["cacheScope"])
            if "nextCursor" not in page:
                break
            more = {"cursor": page["nextCursor"]}
    assert len(scopes) > 1
    assert len(set(scopes)) == 1


@on_envelope
async def test_a_list_does_not_depend_on_what_else_was_asked(revision: str) -> None:
    """Two connections see the same list, and one sees the same before and after anything else."""
    server = many(2)
    async with served(server, revision) as first, served(server, revision) as second:
        before = await first.result("tools/list")
        await first.call("tool-1")
        await first.refusal("tools/call", name="nowhere", arguments={})
        listening = first.begin("subscriptions/listen", notifications={"toolsListChanged": True})
        assert await first.result("tools/list") == before == await second.result("tools/list")
        first.cancel(listening)
        await first.result("tools/list")


async def test_annotations_change_nothing_by_themselves() -> None:
    """A tool that calls itself harmless is called as often as any other: once."""
    hints = {"readOnlyHint": True, "idempotentHint": True, "destructiveHint": False}
    failing = modern(
        tools_list={**STAMP, "tools": [tool("safe", annotations=hints)]},
        tools_call={"resultType": "complete", "content": [], "isError": True},
    )
    async with Client(failing) as client:
        await client.tools()
        await client.call("safe", check=False)
    assert failing.methods.count("tools/call") == 1


@on_envelope
async def test_clients_share_no_cache(revision: str) -> None:
    """Each keeps its own, whoever it is authorized as, and whatever the scope of the result."""
    kept = {"resultType": "complete", "tools": [], "ttlMs": 60_000, "cacheScope": "public"}
    server = modern(tools_list=kept, subscriptions_listen=SILENCE)
    async with Client(server, cache=True) as first:
        await first.tools()
        await first.tools()
        assert server.methods.count("tools/list") == 1
        async with Client(server, cache=True) as second:
            await second.tools()
        assert server.methods.count("tools/list") == 2


@pytest.mark.parametrize("uri", ["no scheme at all", "1st://begins-with-a-digit", "with space://x", "://nothing", ""])
def test_a_uri_that_is_none_is_refused(uri: str) -> None:
    server = Server("odd")
    with pytest.raises(LocalError):
        server.resource(uri)(lambda: "x")


@on_envelope
async def test_logs_do_not_reach_who_listens(revision: str) -> None:
    """They come with the request that asked for them; a subscription on the same connection is told of changes only."""
    server = Server("talkative")

    @server.tool
    async def talk(ctx: Context) -> str:
        await ctx.log.info("this is for who asked")
        server.tool(lambda: "x", name="new")
        return "said"

    @server.tool
    async def talk_again(ctx: Context) -> str:
        await ctx.log.info("nobody asked for this, though somebody listens")
        return "again"

    async with served(server, revision) as caller:
        listening = caller.begin("subscriptions/listen", notifications={"toolsListChanged": True})
        await caller.hear(ACKNOWLEDGED)
        await caller.result("tools/call", name="talk", arguments={}, _meta={LOG_LEVEL: "debug"})
        told = await caller.hear("notifications/tools/list_changed")
        assert told["_meta"][SUBSCRIPTION_ID] == listening
        [log] = [message for message in caller.heard if message["method"] == "notifications/message"]
        assert SUBSCRIPTION_ID not in log["params"].get("_meta", {})
        assert (await caller.result("tools/call", name="talk_again", arguments={}))["content"][0]["text"] == "again"
        assert caller.heard == [log]


@on_envelope
async def test_a_server_cancels_nothing_but_subscriptions(revision: str) -> None:
    """When it ends, calls that still run get no such notification."""
    server = Server("ending")
    began = asyncio.Event()

    @server.tool
    async def wait() -> str:
        began.set()
        await asyncio.Event().wait()
        return "never"

    ours, theirs = memory_pair()
    serving = ConnectionRunner(server._core, theirs, 0.01)
    running = asyncio.create_task(serving.run())
    caller = Caller(ours, revision, ClientCapabilities())
    listening = caller.begin("subscriptions/listen", notifications={"toolsListChanged": True})
    await caller.hear(ACKNOWLEDGED)
    caller.begin("tools/call", name="wait", arguments={})
    await began.wait()
    serving.stop()
    await running
    await caller.answer_to(listening)
    await ours.close()
    told = [message for message in caller.heard if message["method"] == "notifications/cancelled"]
    assert [message["params"]["requestId"] for message in told] == [listening]


async def test_a_client_that_connects_again_subscribes_again() -> None:
    """A new connection knows nothing of what was asked for on the one before."""
    server = Scripted(server_discover=discovery(capabilities={"tools": {"listChanged": True}}))

    def listen(message: dict[str, Any]) -> Any:
        meta = {SUBSCRIPTION_ID: message["id"]}
        server.peer.send(notification(ACKNOWLEDGED, _meta=meta, notifications={"toolsListChanged": True}))
        server.peer.send(notification("notifications/tools/list_changed", _meta=meta))
        return SILENCE

    server.answers["subscriptions/listen"] = listen
    client = Client(server)
    for times in (1, 2):
        async with client, contextlib.aclosing(client.watch(tools=True)) as changes:
            assert (await anext(changes)).kind == "tools"
        assert len(server.peers) == server.methods.count("subscriptions/listen") == times
