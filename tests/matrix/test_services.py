"""What goes on around tools, on every revision and transport: completion, logs, updates, caches, mounts, middleware."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from dovetail import Client, RemoteError, TextContents
from dovetail.middleware import Retries
from dovetail.protocol.envelope import LOG_LEVEL
from dovetail.protocol.errors import Overtaken
from dovetail.protocol.log_levels import LEVELS
from dovetail.protocol.revisions import REVISIONS
from dovetail.runtime.rate_limit import TOO_MANY_REQUESTS
from tests.matrix import services
from tests.matrix.connections import Place, Setting, Transport, connected, era, on_envelope, on_handshake, wired
from tests.matrix.services import TOOLS
from tests.support.oracle import Oracle

ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
MESSAGE = "notifications/message"
UPDATED = "notifications/resources/updated"


def target(transport: Transport) -> Place:
    return Place(transport, services.build, (sys.executable, services.__file__))


@contextlib.asynccontextmanager
async def using(transport: Transport, revision: str, **options: Any) -> AsyncGenerator[Setting]:
    async with connected(target(transport), revision, extensions=[], **options) as made:
        yield made


@contextlib.asynccontextmanager
async def watching(client: Client, oracle: Oracle, *uris: str, **kinds: bool) -> AsyncGenerator[asyncio.Queue[str]]:
    """What a watcher hears, from the moment on when it certainly hears."""
    heard: asyncio.Queue[str] = asyncio.Queue()

    async def listen() -> None:
        async with contextlib.aclosing(client.watch(*uris, **kinds)) as changes:
            async for change in changes:
                heard.put_nowait(change.uri or change.kind)

    listening = asyncio.create_task(listen())
    if era(client.revision) == "envelope":
        await oracle.until(lambda: bool(oracle.sent_by("server", ACKNOWLEDGED)))
    else:
        await oracle.until(lambda: len(oracle.sent_by("client", "resources/subscribe")) == len(uris))
        await client.ping()
    try:
        yield heard
    finally:
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)


async def text(client: Client, uri: str) -> str:
    [contents] = (await client.read(uri)).contents
    assert isinstance(contents, TextContents)
    return contents.text


async def test_what_is_there_is_said(transport: Transport, revision: str) -> None:
    async with using(transport, revision) as (_, oracle, _notes):
        first = oracle.sent_by("client", "initialize") + oracle.sent_by("client", "server/discover")
        said = oracle.answer(first[0])["result"]["capabilities"]
        assert said["logging"] == {}
        assert said["resources"] == {"subscribe": True, "listChanged": True}
        assert ("completions" in said) == ("completions" in REVISIONS[revision].known["ServerCapabilities"])


async def test_completion_suggests_values(transport: Transport, revision: str) -> None:
    async with using(transport, revision) as (client, _, _notes):
        assert (await client.complete("review", "language", "py")).values == ["python", "cpython", "ruby"]
        many = await client.complete("repo://{owner}/{path*}", "owner", "owner24")
        assert (len(many.values), many.total, many.has_more) == (100, 250, True)
        assert many.values[0] == "owner24"
        assert (await client.complete("db_explain", "table", "")).values == ["users"]
        assert (await client.complete("review", "code", "x")).values == []
        settled = (await client.complete("review", "language", "", context={"code": "x"}, debounce=0)).values
        knows = "context" in REVISIONS[revision].known["CompleteParams"]
        assert settled[0] == ("ruby x" if knows else "ruby")
        for reference, argument in (("nobody", "x"), ("review", "x"), ("no://{x}", "x")):
            with pytest.raises(RemoteError) as error:
                await client.complete(reference, argument, "")
            assert error.value.code == -32602


@pytest.mark.one_replica("the limit is that of each replica")
async def test_completion_is_debounced_here_and_limited_there(transport: Transport, revision: str) -> None:
    async with using(transport, revision) as (client, oracle, _):
        typed = (client.complete("review", "language", text) for text in ("p", "py", "pyt"))
        outcomes = await asyncio.gather(*typed, return_exceptions=True)
        assert isinstance(outcomes[1], Overtaken)
        asked = oracle.sent_by("client", "completion/complete")
        assert [each.params["argument"]["value"] for each in asked] == ["p", "pyt"]
        burst = (client.complete("review", "language", "", debounce=0) for _ in range(80))
        refused = [
            each for each in await asyncio.gather(*burst, return_exceptions=True) if isinstance(each, RemoteError)
        ]
        assert refused
        assert {each.code for each in refused} == {TOO_MANY_REQUESTS}


async def test_logs_reach_who_asked_for_them(transport: Transport, revision: str) -> None:
    heard: list[tuple[str, Any, str | None]] = []
    options = {"on_log": lambda *message: heard.append(message), "log_level": "warning"}
    async with using(transport, revision, **options) as (client, oracle, _):
        for level in LEVELS:
            await client.call("talk", level=level)
        assert [level for level, _, _ in heard] == list(LEVELS[3:])
        data = {"message": "talking", "password": "[redacted]", "city": "Lima"}
        assert heard[0] == ("warning", data, "services")
        await client.set_log_level("emergency")
        await client.call("talk", level="alert")
        assert len(heard) == len(LEVELS[3:])
        assert bool(oracle.sent_by("client", "logging/setLevel")) == (era(revision) == "handshake")


@on_envelope
async def test_a_request_that_asks_for_no_logs_gets_none(transport: Transport, revision: str) -> None:
    async with wired(target(transport), revision) as (wire, _):
        await wire.call("talk", level="emergency")
        assert wire.aside == []
        asking = {"name": "talk", "arguments": {"level": "error"}, "_meta": {LOG_LEVEL: "error"}}
        await wire.ask("tools/call", **asking)
        assert [message["method"] for message in wire.aside] == [MESSAGE]
        asking["_meta"] = {LOG_LEVEL: "loud"}
        assert (await wire.ask("tools/call", **asking))["error"]["code"] == -32602


@on_handshake
async def test_the_level_is_the_connections(transport: Transport, revision: str) -> None:
    async with wired(target(transport), revision) as (wire, _):
        await wire.call("talk", level="debug")
        assert wire.aside == []
        assert (await wire.ask("logging/setLevel", level="debug"))["result"] == {}
        await wire.call("talk", level="debug")
        assert [message["method"] for message in wire.aside] == [MESSAGE]
        assert (await wire.ask("logging/setLevel", level="loud"))["error"]["code"] == -32602


async def test_a_flood_of_logs_is_cut(transport: Transport, revision: str) -> None:
    heard: list[Any] = []
    async with using(transport, revision, on_log=lambda *message: heard.append(message)) as (client, _, _notes):
        await client.call("talk", level="error", times=2000)
        assert 100 <= len(heard) < 2000


async def test_updates_of_resources_reach_who_watches_them(transport: Transport, revision: str) -> None:
    async with using(transport, revision) as (client, oracle, _):
        async with watching(client, oracle, "config://app", "repo://ada", "table://users", tools=True) as heard:
            for uri in ("config://other", "config://app", "repo://ada/src/x", "repo://adam/x", "table://users"):
                await client.call("touch", uri=uri)
            await client.call("offer", name="new")
            assert [await heard.get() for _ in range(4)] == [
                "config://app",
                "repo://ada/src/x",
                "table://users",
                "tools",
            ]
        told = len(oracle.sent_by("server", UPDATED))
        assert told == 3
        await client.call("touch", uri="config://app")
        await client.ping()
        assert len(oracle.sent_by("server", UPDATED)) == told
        left = oracle.sent_by("client", "resources/unsubscribe")
        assert len(left) == (3 if era(revision) == "handshake" else 0)


async def test_what_is_not_there_cannot_be_watched(transport: Transport, revision: str) -> None:
    async with using(transport, revision) as (client, _, _notes):
        with pytest.raises(RemoteError) as error:
            await anext(client.watch("nowhere://x"))
        assert error.value.code == REVISIONS[revision].not_found_code


async def test_hints_say_what_may_be_kept(transport: Transport, revision: str) -> None:
    async with using(transport, revision) as (client, _, _notes):
        hints = [
            ("tools/list", {}, (60_000, "public")),
            ("resources/read", {"uri": "config://app"}, (60_000, "private")),
            ("resources/read", {"uri": "config://open"}, (60_000, "public")),
            ("resources/read", {"uri": "config://now"}, (0, "private")),
        ]
        for method, params, expected in hints:
            result = await client.request(method, params)
            knows = method in REVISIONS[revision].cacheable
            assert (result.get("ttlMs"), result.get("cacheScope")) == (expected if knows else (None, None))


async def test_what_may_be_kept_is_kept_until_it_changes(transport: Transport, revision: str) -> None:
    async with using(transport, revision, cache=True) as (client, oracle, _):
        keeps = era(revision) == "envelope"
        assert await text(client, "config://app") == "1"
        assert await text(client, "config://app") == ("1" if keeps else "2")
        before = await text(client, "config://now")
        assert await text(client, "config://now") != before
        for _ in range(2):
            assert [tool.name for tool in await client.tools()] == TOOLS
        assert len(oracle.sent_by("client", "tools/list")) == (1 if keeps else 2)
        if keeps:
            await oracle.until(lambda: bool(oracle.sent_by("server", ACKNOWLEDGED)))
        await client.call("offer", name="new")
        await oracle.until(lambda: bool(oracle.sent_by("server", "notifications/tools/list_changed")))
        assert [tool.name for tool in await client.tools()] == [*TOOLS, "new"]


async def test_tools_come_in_the_same_order_every_time(transport: Transport, revision: str) -> None:
    async with using(transport, revision) as (client, _, _notes):
        for _ in range(2):
            assert [tool.name for tool in await client.tools()] == TOOLS


async def test_a_mounted_server(transport: Transport, revision: str) -> None:
    async with using(transport, revision) as (client, _, _notes):
        assert (await client.call("db_query", sql="x")).data == "x alive database"
        assert await text(client, "table://users") == "ada"
        assert len((await client.prompt("db_explain", table="users")).messages) == 1
        await client.call("db_grow")
        assert "db_grown" in [tool.name for tool in await client.tools()]
        await client.call("db_grown")


async def test_middleware_wraps_both_ways(transport: Transport, revision: str) -> None:
    async with using(transport, revision, middleware=[Retries(2, pause=0.001)]) as (client, _, _notes):
        assert (await client.call("shout", text="hi")).data == "hi"
        masked = await client.call("crash", check=False)
        assert masked.is_error
        assert "secret" not in masked.text
        assert (await client.call("refuse", check=False)).text == "At most 14 days."
        assert "the limit is 100000" in (await client.call("flood", check=False)).text
        direct = era(revision) == "handshake"
        passed = (await client.call("passed", ask=direct)).data
        assert passed[0] == ("server in initialize" if direct else "server in server/discover")
        assert ("server out ping" in passed) == direct
