"""Lists on every revision and transport: their pages, and hearing of what is added and removed."""

import asyncio
import contextlib
import itertools
import os
import signal
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from dovetail import Client, RemoteError
from dovetail.protocol.envelope import SUBSCRIPTION_ID
from dovetail.protocol.revisions import REVISIONS
from tests.matrix.connections import (
    Setting,
    Transport,
    connected,
    era,
    on_envelope,
    on_handshake,
    target,
    tells_of_cancelling,
    wired,
)
from tests.matrix.everything import PAGE_SIZE, build
from tests.support.oracle import Oracle

LISTS = {
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
}
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
KINDS = {"tool": "tools", "resource": "resources", "template": "resources", "prompt": "prompts"}

each_list = pytest.mark.parametrize("method", LISTS)
each_kind = pytest.mark.parametrize("kind", KINDS)

_numbers = itertools.count()


@pytest.fixture
def name() -> str:
    """A name that nothing on a shared server has."""
    return f"new-{next(_numbers)}"


def names(items: list[dict[str, Any]]) -> list[str]:
    return [item["name"] for item in items]


async def pages(client: Client, method: str) -> list[list[str]]:
    found: list[list[str]] = []
    cursor: dict[str, str] = {}
    while True:
        page = await client.request(method, cursor)
        found.append(names(page[LISTS[method]]))
        if "nextCursor" not in page:
            return found
        cursor = {"cursor": page["nextCursor"]}


@each_list
async def test_a_list_comes_in_pages_and_each_entry_once(client: Client, method: str) -> None:
    found = await pages(client, method)
    assert len(found) >= 3
    assert all(len(page) == PAGE_SIZE for page in found[:-1])
    assert 0 < len(found[-1]) <= PAGE_SIZE
    flat = [entry for page in found for entry in page]
    assert len(flat) == len(set(flat))
    assert flat[0] in {"add", "hello", "item", "review"}


async def test_the_client_turns_the_pages_by_itself(client: Client, oracle: Oracle) -> None:
    tools = await client.tools()
    asked = oracle.sent_by("client", "tools/list")
    assert len(asked) == -(-len(tools) // PAGE_SIZE)
    assert "cursor" not in asked[0].params
    assert all(isinstance(each.params["cursor"], str) for each in asked[1:])


@each_list
async def test_a_cursor_that_was_not_given_is_invalid_params(client: Client, method: str) -> None:
    cursor = (await client.request(method))["nextCursor"]
    other = next(each for each in LISTS if each != method)
    foreign = (await client.request(other))["nextCursor"]
    flipped = ("B" if cursor[0] == "A" else "A") + cursor[1:]
    for bad in ("", "nonsense", "A" * 5000, flipped, cursor[:-2], cursor + "AAAA", foreign, "\u2028"):
        with pytest.raises(RemoteError) as error:
            await client.request(method, {"cursor": bad})
        assert error.value.code == -32602
    assert (await client.request(method, {"cursor": cursor}))[LISTS[method]]


@each_kind
async def test_changes_between_pages_lose_nothing(transport: Transport, revision: str, kind: str) -> None:
    method = {"tool": "tools/list", "template": "resources/templates/list"}.get(kind, f"{kind}s/list")
    async with connected(target(transport), revision) as (client, _, _notes):
        await client.call("offer", kind=kind, name="zz-early")
        before = [entry for page in await pages(client, method) for entry in page]
        first = await client.request(method)
        await client.call("offer", kind=kind, name="zz-late")
        await client.call("withdraw", kind=kind, name="zz-early")
        seen = names(first[LISTS[method]])
        cursor = first["nextCursor"]
        while cursor is not None:
            page = await client.request(method, {"cursor": cursor})
            seen += names(page[LISTS[method]])
            cursor = page.get("nextCursor")
        assert seen == [entry for entry in before if entry != "zz-early"] + ["zz-late"]


@contextlib.asynccontextmanager
async def watching(client: Client, oracle: Oracle, **kinds: bool) -> AsyncGenerator[asyncio.Queue[str]]:
    """What a watcher hears, from the moment on when it certainly hears."""
    heard: asyncio.Queue[str] = asyncio.Queue()
    acknowledged = len(oracle.sent_by("server", ACKNOWLEDGED))

    async def listen() -> None:
        async with contextlib.aclosing(client.watch(**kinds)) as changes:
            async for change in changes:
                heard.put_nowait(change.kind)

    listening = asyncio.create_task(listen())
    await asyncio.sleep(0)
    if era(client.revision) == "envelope":
        await oracle.until(lambda: len(oracle.sent_by("server", ACKNOWLEDGED)) > acknowledged)
    try:
        yield heard
    finally:
        listening.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await listening


@each_kind
@pytest.mark.one_replica("each replica announces its own change")
async def test_what_is_added_and_removed_at_run_time_is_told(
    client: Client, oracle: Oracle, kind: str, name: str
) -> None:
    plural = KINDS[kind]
    async with watching(client, oracle, **{plural: True}) as heard:
        await client.call("offer", kind=kind, name=name)
        assert await heard.get() == plural
        await client.call("withdraw", kind=kind, name=name)
        assert await heard.get() == plural
    told = oracle.sent_by("server", f"notifications/{plural}/list_changed")
    assert len(told) == 2


async def test_what_was_added_can_be_used_and_what_was_removed_cannot(client: Client, name: str) -> None:
    for kind in KINDS:
        await client.call("offer", kind=kind, name=name)
    assert name in {tool.name for tool in await client.tools()}
    assert (await client.call(name)).text == name
    assert (await client.read(f"new://{name}")).contents
    assert (await client.read(f"new://{name}/part")).contents
    assert (await client.prompt(name)).messages
    for kind in KINDS:
        await client.call("withdraw", kind=kind, name=name)
    for lost in (
        client.call(name),
        client.read(f"new://{name}"),
        client.read(f"new://{name}/part"),
        client.prompt(name),
    ):
        with pytest.raises(RemoteError):
            await lost


@on_envelope
async def test_only_what_was_asked_for_is_told(client: Client, oracle: Oracle, name: str) -> None:
    async with watching(client, oracle, prompts=True) as heard:
        for kind in KINDS:
            await client.call("offer", kind=kind, name=name)
            await client.call("withdraw", kind=kind, name=name)
        assert await heard.get() == "prompts"
    told = {message.method for message in oracle.sent_by("server") if message.method is not None}
    assert told == {ACKNOWLEDGED, "notifications/prompts/list_changed"}


@on_envelope
async def test_each_subscription_is_told_under_its_own_id(client: Client, oracle: Oracle, name: str) -> None:
    async with watching(client, oracle, tools=True) as one, watching(client, oracle, tools=True) as other:
        await client.call("offer", kind="tool", name=name)
        assert (await one.get(), await other.get()) == ("tools", "tools")
        ids = [request.body["id"] for request in oracle.sent_by("client", "subscriptions/listen")]
        told = oracle.sent_by("server", "notifications/tools/list_changed")
        assert sorted(message.params["_meta"][SUBSCRIPTION_ID] for message in told) == ids
    await client.call("withdraw", kind="tool", name=name)


@on_envelope
async def test_a_subscription_that_was_cancelled_is_told_nothing_more(
    client: Client, oracle: Oracle, shared: Setting, name: str, transport: Transport, revision: str
) -> None:
    async with watching(client, oracle, tools=True):
        pass
    await client.ping()
    await shared.let_go()
    wire = shared.wire
    [asked] = wire.sent_by("client", "subscriptions/listen")
    told = [each.params["requestId"] for each in wire.sent_by("client", "notifications/cancelled")]
    assert told == ([asked.body["id"]] if tells_of_cancelling(transport, revision) else [])
    seen = len(wire.messages)
    await client.call("offer", kind="tool", name=name)
    await client.call("withdraw", kind="tool", name=name)
    await client.ping()
    assert [m for m in wire.sent_by("server", since=seen) if m.method is not None] == []


@on_envelope
async def test_a_subscription_is_acknowledged_as_far_as_it_can_be_kept(transport: Transport, revision: str) -> None:
    wanted = {"toolsListChanged": True, "promptsListChanged": True, "resourceSubscriptions": ["text://hello"]}
    asked = {**wanted, "resourceSubscriptions": ["text://nowhere", "text://hello", "text://hello"]}
    for empty, kept in ((True, {}), (False, wanted)):
        async with wired(target(transport, empty=empty), revision) as (wire, _):
            wire.send(wire.request("subscriptions/listen", id="sub", notifications=asked))
            first = await wire.receive()
            assert first["method"] == ACKNOWLEDGED
            assert first["params"] == {"_meta": {SUBSCRIPTION_ID: "sub"}, "notifications": kept}


@on_envelope
async def test_a_server_that_ends_closes_its_subscriptions(revision: str) -> None:
    """Only a process can be asked to end from outside, so this is about stdio alone."""
    async with wired(target("stdio"), revision) as (wire, _):
        wire.send(wire.request("subscriptions/listen", id="sub", notifications={"toolsListChanged": True}))
        await wire.receive()
        os.kill(wire.pid, signal.SIGTERM)
        cancelled = await wire.receive()
        assert (cancelled["method"], cancelled["params"]["requestId"]) == ("notifications/cancelled", "sub")
        closed = await wire.receive()
        assert (closed["id"], closed["result"]["_meta"][SUBSCRIPTION_ID]) == ("sub", "sub")
        with pytest.raises(ConnectionError):
            await wire.receive()


@on_handshake
@pytest.mark.one_replica("each replica announces its own change")
async def test_a_client_hears_by_itself_once_it_has_confirmed_the_handshake(
    transport: Transport, revision: str
) -> None:
    async with wired(target(transport), revision, greet=False) as (wire, _):
        hello = {"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
        await wire.ask("initialize", **hello)
        await wire.call("offer", kind="tool", name="early")
        assert await wire.quiet() == []
        wire.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        await wire.call("offer", kind="tool", name="late")
        told = wire.aside or [await wire.receive()]
        assert told == [{"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}]
        assert await wire.quiet() == []


async def test_a_change_is_told_to_every_client_of_a_server(revision: str) -> None:
    """One server object, one client of each revision: a process over stdio has one client only."""
    server = build()
    async with contextlib.AsyncExitStack() as stack:
        changer = await stack.enter_async_context(connected(server, revision))
        heard: list[asyncio.Queue[str]] = []
        for other in REVISIONS:
            made = await stack.enter_async_context(connected(server, other))
            heard.append(await stack.enter_async_context(watching(made.client, made.oracle, tools=True)))
        await changer.client.call("offer", kind="tool", name="shared")
        for queue in heard:
            assert await queue.get() == "tools"
