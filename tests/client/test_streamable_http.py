"""What a client does only because its server is behind HTTP."""

import asyncio
import base64
from typing import Any

import pytest

from dovetail import Client, Server
from dovetail.protocol.errors import ConnectionLost, OutcomeUnknown, RemoteError, SessionEnded
from dovetail.transports import reconnection
from tests.client.site import Site, Status, legacy, modern
from tests.client.targets.test_http import HANDSHAKE, nothing_remembered
from tests.support.http import serving
from tests.support.scripted import Error, Scripted, discovery, welcome
from tests.support.waiting import until
from tests.transports.http.handmade import RecordedRequest, ResponseWriter, progress

__all__ = ["nothing_remembered"]

DONE = {"resultType": "complete", "content": [{"type": "text", "text": "done"}]}


def tool(name: str, **properties: Any) -> dict[str, Any]:
    return {"name": name, "inputSchema": {"type": "object", "properties": properties}}


def listing(*tools: dict[str, Any]) -> dict[str, Any]:
    return {"resultType": "complete", "tools": list(tools), "ttlMs": 60_000, "cacheScope": "private"}


def mirrored(kind: str, name: str = "Region") -> dict[str, Any]:
    return {"type": kind, "x-mcp-header": name}


class TestMirroring:
    async def test_arguments_go_into_headers_once_the_tools_are_known(self):
        tools = listing(tool("sql", region=mirrored("string"), n=mirrored("integer", "N")))
        async with modern(tools_list=tools, tools_call=DONE) as site, Client(site.url) as client:
            await client.tools()
            await client.call("sql", region="münchen", n=3)
        headers = site.named("tools/call")[0].headers
        encoded = base64.b64encode("münchen".encode()).decode()
        assert headers["mcp-param-region"] == f"=?base64?{encoded}?="
        assert headers["mcp-param-n"] == "3"

    @pytest.mark.parametrize(
        "bad",
        [
            mirrored("object"),
            mirrored("string", ""),
            mirrored("string", "a b"),
            {"type": "array", "items": mirrored("string")},
            mirrored("number"),
        ],
    )
    async def test_a_tool_with_a_bad_annotation_is_left_out_with_a_warning(
        self, bad: dict[str, Any], caplog: pytest.LogCaptureFixture
    ):
        tools = listing(tool("good"), tool("bad", region=bad))
        async with modern(tools_list=tools) as site, Client(site.url) as client:
            assert [tool.name for tool in await client.tools()] == ["good"]
        assert "The tool 'bad' is left out: " in caplog.text

    async def test_numbers_were_fine_in_the_handshake_era(self):
        tools = {"tools": [tool("sql", x=mirrored("number", "X"))]}
        async with legacy(tools_list=tools, tools_call=DONE) as site, Client(site.url) as client:
            assert len(await client.tools()) == 1
            await client.call("sql", x=1.5)
        assert site.named("tools/call")[0].headers["mcp-param-x"] == "1.5"

    async def test_elsewhere_annotations_do_not_matter(self):
        server = Scripted(server_discover=discovery(), tools_list=listing(tool("bad", region=mirrored("object"))))
        async with Client(server) as client:
            assert len(await client.tools()) == 1

    @pytest.mark.parametrize("cache", [False, True])
    async def test_a_call_with_the_wrong_headers_is_sent_again_after_a_look(self, cache: bool):
        def call(asked: RecordedRequest) -> Any:
            return DONE if "mcp-param-region" in asked.headers else Error(-32020, "Header mismatch")

        tools = listing(tool("sql", region=mirrored("string")))
        async with (
            modern(tools_list=listing(tool("sql")), tools_call=call) as site,
            Client(site.url, cache=cache) as client,
        ):
            await client.tools()
            site.answers["tools/list"] = tools
            assert (await client.call("sql", region="x")).text == "done"
        assert [asked.headers.get("mcp-param-region") for asked in site.named("tools/call")] == [None, "x"]
        assert len({asked.id for asked in site.named("tools/call")}) == 2

    async def test_but_only_once(self):
        mismatch = Error(-32020, "Header mismatch")
        async with modern(tools_list=listing(), tools_call=mismatch) as site, Client(site.url) as client:
            with pytest.raises(RemoteError, match="Header mismatch"):
                await client.call("sql", region="x")
        assert len(site.named("tools/call")) == 2
        assert len(site.named("tools/list")) == 1


class TestSessions:
    async def test_a_new_session_is_begun_and_the_call_sent_again(self):
        async with legacy(tools_call=DONE) as site, Client(site.url) as client:
            await client.call("x")
            site.session += 1
            assert (await client.call("x")).text == "done"
            assert (await client.call("x")).text == "done"
        assert len(site.named("initialize")) == 2
        assert "mcp-session-id" not in site.named("initialize")[1].headers
        sessions = [asked.headers["mcp-session-id"] for asked in site.named("tools/call")]
        assert sessions == ["s1", "s1", "s3", "s3"]

    async def test_of_many_calls_that_find_it_gone_one_begins_a_new_one(self):
        async with legacy(tools_call=DONE) as site, Client(site.url) as client:
            site.session += 1
            results = await asyncio.gather(*[client.call("x") for _ in range(20)])
        assert [result.text for result in results] == ["done"] * 20
        assert len(site.named("initialize")) == 2

    async def test_progress_follows_the_call(self):
        told: list[float] = []

        async def call(asked: RecordedRequest) -> Any:
            token = asked.message["params"]["_meta"]["progressToken"]
            await site.listening.wait()
            assert site.stream is not None
            params = {"progressToken": token, "progress": 5}
            await site.stream.event({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
            await until(lambda: told)
            return DONE

        async with legacy(tools_call=call, listen=True) as site, Client(site.url) as client:
            await site.listening.wait()
            site.listening.clear()
            site.session += 1
            await client.call("x", progress=lambda progress, *_: told.append(progress))
        assert told == [5]

    async def test_what_was_watched_and_the_log_level_are_asked_for_again(self):
        able = {"resources": {"subscribe": True}, "logging": {}}
        more: dict[str, Any] = {"resources_subscribe": {}, "logging_setLevel": {}, "resources_unsubscribe": {}}
        heard: list[Any] = []

        async with (
            legacy(initialize=welcome(capabilities=able), listen=True, ping={}, **more) as site,
            Client(site.url, on_log=lambda *_: None, log_level="debug") as client,
        ):

            async def watch() -> None:
                heard.extend([await anext(client.watch("a://b"))])

            watching = asyncio.create_task(watch())
            await site.until(lambda: site.named("resources/subscribe"))
            site.listening.clear()
            site.session += 1
            await client.ping()
            await site.listening.wait()
            await site.until(lambda: len(site.named("resources/subscribe")) == 2)
            assert site.stream is not None
            update = {"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": "a://b"}}
            await site.stream.event(update)
            await until(lambda: heard)
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
        again = site.methods[site.methods.index("initialize", site.methods.index("ping")) :]
        assert "resources/subscribe" in again
        assert "logging/setLevel" in again

    async def test_a_server_that_gives_no_new_one(self):
        async with legacy(tools_call=DONE) as site, Client(site.url) as client:
            site.session += 1
            site.answers["initialize"] = Status(503)
            with pytest.raises(ConnectionLost, match="503"):
                await client.call("x")
            site.answers["initialize"] = welcome()
            await client.call("x")

    async def test_a_server_that_ends_every_session_is_not_asked_for_ever(self):
        async with (
            legacy(tools_call=DONE, initialize=welcome(capabilities={"logging": {}})) as site,
            Client(site.url, on_log=lambda *_: None) as client,
        ):
            real = site._answer

            async def forgetful(asked: RecordedRequest, line: ResponseWriter) -> None:
                await real(asked, line)
                site.session += 1

            site._answer = forgetful
            site.session += 1
            with pytest.raises(SessionEnded):
                await client.call("x")
        assert len(site.named("initialize")) == 2


class TestRepeating:
    """A stream breaks off, and when it is to be resumed the session is gone."""

    @pytest.fixture(autouse=True)
    def impatient(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(reconnection, "FIRST_DELAY", 0.005)

    def site(self, method: str, result: dict[str, Any]) -> Site:
        hints = {"harmless": {"readOnlyHint": True}, "twice": {"idempotentHint": True}, "once": {}}
        tools = [{**tool(name), "annotations": hint} for name, hint in hints.items()]
        site = legacy(tools_list={"tools": tools})
        real = site._talk

        async def talk(asked: RecordedRequest, line: ResponseWriter) -> None:
            if asked.method == "GET" and "last-event-id" in asked.headers:
                await line.answer(404)
            elif asked.method == "POST" and asked.message.get("method") == method and site.session == 1:
                await line.stream()
                await line.event(progress(1), id="a1")
                site.session += 1
                line.cut()
            else:
                await real(asked, line)

        site._script = talk
        site.answers[method] = result
        return site

    @pytest.mark.parametrize("name", ["harmless", "twice"])
    async def test_a_tool_that_says_a_second_call_does_no_harm(self, name: str):
        async with self.site("tools/call", DONE) as site, Client(site.url, revision=HANDSHAKE) as client:
            await client.tools()
            assert (await client.call(name)).text == "done"
        assert len(site.named("tools/call")) == 2

    async def test_any_other_tool_is_not_called_twice(self):
        async with self.site("tools/call", DONE) as site, Client(site.url, revision=HANDSHAKE) as client:
            await client.tools()
            with pytest.raises(OutcomeUnknown) as raised:
                await client.call("once")
            assert isinstance(raised.value.__cause__, SessionEnded)
            assert len(site.named("tools/call")) == 1
            assert (await client.call("once")).text == "done"

    async def test_reading_does_no_harm(self):
        result = {"contents": [{"uri": "a://b", "text": "x"}]}
        async with self.site("resources/read", result) as site, Client(site.url, revision=HANDSHAKE) as client:
            assert (await client.read("a://b")).contents
        assert len(site.named("resources/read")) == 2


@pytest.mark.parametrize(("revision", "said"), [("2026-07-28", False), (HANDSHAKE, True)])
async def test_a_trace_shows_what_is_sent_and_a_request_given_up_by_closing_its_stream_sends_nothing(
    revision: str, said: bool
):
    server = Server("patient")
    waiting = asyncio.Event()

    @server.tool
    async def wait() -> None:
        waiting.set()
        await asyncio.Event().wait()

    sent: list[bytes] = []

    def trace(direction: str, line: bytes) -> None:
        if direction == "sent":
            sent.append(line)

    async with (
        serving(server.asgi()) as url,
        Client(f"{url}/mcp", revision=revision, trace=trace) as client,
    ):
        call = asyncio.create_task(client.call("wait"))
        await waiting.wait()
        call.cancel()
        await asyncio.wait({call})
        assert any(b"notifications/cancelled" in line for line in sent) is said
