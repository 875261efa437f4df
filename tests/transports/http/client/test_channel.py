"""The client's end of Streamable HTTP, against servers that do exactly what the test says."""

import asyncio
import base64
import contextlib
import gzip
import json
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest

from dovetail.protocol.errors import (
    ConnectionLost,
    HttpStatus,
    InvalidAnswer,
    LocalError,
    NotFound,
    OutcomeUnknown,
    RemoteError,
    SessionEnded,
)
from dovetail.protocol.revisions import REVISIONS
from dovetail.transports.base import HIGH_WATER
from dovetail.transports.http.aiohttp_client import AiohttpClient
from dovetail.transports.http.client import channel as http_client
from dovetail.transports.http.client.channel import HttpChannel
from dovetail.transports.http.contract import HttpOptions
from dovetail.transports.http.requester import HttpRequester, TokenAuth
from tests.support.peer import nothing_left
from tests.support.waiting import settled, until
from tests.transports.http.handmade import (
    ENVELOPE,
    RecordedRequest,
    RecordingReceiver,
    ResponseWriter,
    ScriptedHttpServer,
    notification,
    progress,
    reply,
    request,
)

HANDSHAKE = "2025-11-25"


@contextlib.asynccontextmanager
async def connected(
    server: ScriptedHttpServer, agreed: str | None = None, max_body: int = 1_000_000, **how: Any
) -> AsyncIterator[tuple[HttpChannel, RecordingReceiver]]:
    client = AiohttpClient(HttpOptions(), server.url)
    channel = HttpChannel(HttpRequester(client, server.url, **how), max_body)
    ear = RecordingReceiver()
    channel.open(ear)
    if agreed is not None:
        channel.agreed(REVISIONS[agreed])
    try:
        yield channel, ear
    finally:
        await channel.close()
        await client.close()


async def welcome(asked: RecordedRequest, line: ResponseWriter, session: str | None = "s1") -> bool:
    """Answer what belongs to the handshake, without a stream of the server's own."""
    if asked.method == "GET":
        await line.answer(405)
    elif asked.method == "DELETE":
        await line.answer(200)
    elif "id" not in asked.message:
        await line.answer(202)
    elif asked.message.get("method") == "initialize":
        await line.result(asked, {}, **({} if session is None else {"mcp_session_id": session}))
    else:
        return False
    return True


async def handshake(channel: HttpChannel, ear: RecordingReceiver, revision: str = HANDSHAKE) -> None:
    channel.send(request(0, "initialize"))
    await ear.count(1)
    ear.messages.clear()
    channel.agreed(REVISIONS[revision])
    channel.send(notification("notifications/initialized"))


class TestSending:
    async def test_a_request_is_a_post_with_the_standard_headers(self):
        async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
            await line.result(asked)

        async with ScriptedHttpServer(script) as server, connected(server) as (channel, ear):
            channel.send(request(1, "tools/call", ENVELOPE, name="add", arguments={"a": 1}))
            await ear.count(1)
        assert ear.messages == [reply(1)]
        (asked,) = server.asked
        assert (asked.method, asked.path) == ("POST", "/mcp")
        assert asked.message["params"]["arguments"] == {"a": 1}
        kept = {name: asked.headers[name] for name in asked.headers if name.startswith(("mcp-", "content-t", "accept"))}
        assert kept == {
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
            "accept-encoding": asked.headers["accept-encoding"],
            "mcp-protocol-version": ENVELOPE,
            "mcp-method": "tools/call",
            "mcp-name": "add",
        }

    @pytest.mark.parametrize("revision", list(REVISIONS))
    async def test_every_revision_has_them(self, revision: str):
        async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
            await line.result(asked)

        async with ScriptedHttpServer(script) as server, connected(server, revision) as (channel, ear):
            channel.send(request(1, "resources/read", uri="note://ü"))
            await ear.count(1)
        headers = server.asked[0].headers
        encoded = base64.b64encode("note://ü".encode()).decode()
        assert headers["mcp-name"] == f"=?base64?{encoded}?="
        assert headers["mcp-method"] == "resources/read"
        assert headers["mcp-protocol-version"] == revision

    async def test_before_an_agreement_there_is_no_version_to_name(self):
        async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
            await line.result(asked)

        async with ScriptedHttpServer(script) as server, connected(server) as (channel, ear):
            channel.send(request(1, "initialize"))
            await ear.count(1)
        assert "mcp-protocol-version" not in server.asked[0].headers
        assert server.asked[0].headers["mcp-method"] == "initialize"

    async def test_mirrored_arguments(self):
        async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
            await line.result(asked)

        async with ScriptedHttpServer(script) as server, connected(server, ENVELOPE) as (channel, ear):
            channel.header_arguments = {"sql": {("region",): "Region", ("at", "deep"): "Deep", ("none",): "None"}}
            arguments = {"region": "a\r\nX-Evil: 1", "at": {"deep": 7}, "none": None}
            channel.send(request(1, "tools/call", name="sql", arguments=arguments))
            channel.send(request(2, "tools/call", name="other", arguments=arguments))
            await ear.count(2)
        first, second = sorted(server.asked, key=lambda asked: asked.id)
        mirrored = {name: value for name, value in first.headers.items() if name.startswith("mcp-param-")}
        encoded = base64.b64encode(arguments["region"].encode()).decode()
        assert mirrored == {"mcp-param-region": f"=?base64?{encoded}?=", "mcp-param-deep": "7"}
        assert "x-evil" not in first.headers
        assert not any(name.startswith("mcp-param-") for name in second.headers)

    async def test_an_argument_that_cannot_be_mirrored_fails_its_call_alone(self):
        async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
            await line.result(asked)

        async with ScriptedHttpServer(script) as server, connected(server, ENVELOPE) as (channel, ear):
            channel.header_arguments = {"sql": {("n",): "N"}}
            channel.send(request(1, "tools/call", name="sql", arguments={"n": 2**53}))
            assert isinstance(await ear.failure(1), LocalError)
            channel.send(request(2, "tools/call", name="sql", arguments={"n": 2}))
            await ear.count(1)
        assert len(server.asked) == 1

    async def test_notifications_arrive_in_order_and_need_no_answer(self):
        async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
            await asyncio.sleep(0.01 if asked.message["params"]["n"] == 0 else 0)
            await line.answer(202)

        async with ScriptedHttpServer(script) as server, connected(server, HANDSHAKE) as (channel, ear):
            for n in range(5):
                channel.send(notification("notifications/x", n=n))
            await server.until(lambda: len(server.asked) == 5)
        assert [asked.message["params"]["n"] for asked in server.asked] == [0, 1, 2, 3, 4]
        assert ear.messages == []

    async def test_initialized_is_taken_before_anything_is_asked(self):
        taken = asyncio.Event()

        async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
            if asked.method == "POST" and asked.message["method"] == "notifications/initialized":
                await settled(50)
                taken.set()
            elif asked.method == "POST" and asked.message["method"] == "tools/list":
                assert taken.is_set()
            if not await welcome(asked, line):
                await line.result(asked)

        async with ScriptedHttpServer(script) as server, connected(server) as (channel, ear):
            await handshake(channel, ear)
            channel.send(request(1))
            await ear.count(1)
        assert ear.messages == [reply(1)]

    async def test_many_at_once_and_one_connection_for_one_after_the_other(self):
        async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
            await line.result(asked)

        async with ScriptedHttpServer(script) as server, connected(server, ENVELOPE) as (channel, ear):
            for n in range(20):
                channel.send(request(n))
                await ear.count(n + 1)
            assert server.connections == 1
            for n in range(20, 120):
                channel.send(request(n))
            await ear.count(120)
        assert {message["id"] for message in ear.messages} == set(range(120))

    async def test_a_large_message(self):
        async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
            await line.result(asked, {"size": len(asked.body)})

        line = request(1, text="x" * 3_000_000)
        async with ScriptedHttpServer(script) as server, connected(server, ENVELOPE) as (channel, ear):
            channel.send(line)
            await ear.count(1)
        assert ear.messages[0]["result"] == {"size": len(line)}

    async def test_an_answer_is_not_sent_where_there_must_be_none(self, caplog: pytest.LogCaptureFixture):
        async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
            await line.result(asked)

        async with ScriptedHttpServer(script) as server, connected(server, ENVELOPE) as (channel, ear):
            channel.send(json.dumps(reply(5)).encode())
            channel.send(request(1))
            await ear.count(1)
        assert len(server.asked) == 1
        assert "An answer was not sent" in caplog.text


class TestReceiving:
    async def test_events_one_by_one_and_also_after_the_answer(self):
        async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
            await line.stream()
            await line.event(progress(1))
            await line.send(b": keep-alive\n\nevent: other\ndata: {}\n\n")
            await line.event(reply(1))
            await line.event(progress(2))
            line.end()

        async with ScriptedHttpServer(script) as server, connected(server, ENVELOPE) as (channel, ear):
            channel.send(request(1))
            await ear.count(3)
            await settled()
        assert ear.messages == [progress(1), reply(1), progress(2)]
        assert ear.failures == {}

    async def test_a_stream_in_chunks_that_cut_everywhere(self):
        body = b'data: {"jsonrpc":"2.0","id":1,\r\ndata: "result":{"\xc3\xbc":1}}\r\n\r\n'

        async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
            head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
            await line.send(head + b"transfer-encoding: chunked\r\n\r\n")
            for byte in body:
                await line.send(b"1\r\n%c\r\n" % byte)
            await line.send(b"0\r\n\r\n")

        async with ScriptedHttpServer(script) as server, connected(server, ENVELOPE) as (channel, ear):
            channel.send(request(1))
            await ear.count(1)
            channel.send(request(1))
            await ear.count(2)
        assert ear.messages[0] == reply(1, ü=1)
        assert server.connections == 1

    async def test_a_stream_that_stays_open_after_the_answer_is_left(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr("dovetail.transports.http.client.sse_reader.LINGER_SECONDS", 0.02)
        left = asyncio.Event()

        async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
            await line.stream()
            await line.event(reply(1))
            await line.until_gone()
            left.set()

        async with ScriptedHttpServer(script) as server, connected(server, ENVELOPE) as (channel, ear):
            channel.send(request(1))
            await ear.count(1)
            async with asyncio.timeout(10):
                await left.wait()
        assert ear.failures == {}

    @pytest.mark.parametrize("kind", ["application/json; charset=utf-8", "Application/JSON"])
    async def test_the_type_may_be_written_in_more_ways(self, kind: str):
        async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
            await line.answer(200, json.dumps(reply(1)).encode(), kind)

        async with ScriptedHttpServer(script) as server, connected(server, ENVELOPE) as (channel, ear):
            channel.send(request(1))
            await ear.count(1)

    @pytest.mark.parametrize(
        ("status", "kind", "said"),
        [
            (200, "text/html", "answered with text/html instead of JSON or events: this looks like a web page"),
            (200, "text/plain", "answered with text/plain instead of JSON or events"),
            (202, None, "answered 202 without a message"),
            (204, None, "answered 204 without a message"),
        ],
    )
    async def test_what_is_no_answer_fails_the_request(self, status: int, kind: str | None, said: str):
        async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
            await line.answer(status, b"" if kind is None else b"<html>", kind)

        async with ScriptedHttpServer(script) as server, connected(server, ENVELOPE) as (channel, ear):
            channel.send(request(1))
            problem = await ear.failure(1)
        assert isinstance(problem, InvalidAnswer)
        assert said in str(problem)

    @pytest.mark.parametrize("answer", [reply(2), progress(1), reply("1"), {"jsonrpc": "2.0", "method": "x", "id": 1}])
    async def test_an_answer_to_something_else_fails_the_request(self, answer: Any):
        async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
            await line.json(answer)

        async with ScriptedHttpServer(script) as server, connected(server, ENVELOPE) as (channel, ear):
            channel.send(request(1))
            await ear.until(lambda: 1 in ear.failures or ear.messages == [reply("1")])
            await settled()
        assert isinstance(ear.failures.get(1), InvalidAnswer)

    async def test_an_answer_that_is_too_long(self):
        async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
            await line.result(asked, {"text": "x" * 300_000})

        async with (
            ScriptedHttpServer(script) as server,
            connected(server, ENVELOPE, max_body=200_000) as (channel, ear),
        ):
            channel.send(request(1))
            assert "more than 200000 bytes" in str(await ear.failure(1))

    async def test_an_event_that_is_too_long(self):
        async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
            await line.stream()
            await line.event(progress(1))
            await line.send(b"data: " + b"x" * 300_000)

        async with (
            ScriptedHttpServer(script) as server,
            connected(server, ENVELOPE, max_body=200_000) as (channel, ear),
        ):
            channel.send(request(1))
            assert "more than 200000 bytes" in str(await ear.failure(1))
        assert ear.messages == [progress(1)]

    async def test_a_small_body_that_unfolds_to_a_huge_one(self):
        bomb = gzip.compress(b'{"x":"' + b"0" * 200_000_000, 9)
        assert len(bomb) < 300_000

        async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
            await line.answer(200, bomb, "application/json", content_encoding="gzip")

        import resource

        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        async with ScriptedHttpServer(script) as server, connected(server, ENVELOPE) as (channel, ear):
            channel.send(request(1))
            assert "more than 1000000 bytes" in str(await ear.failure(1))
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000

    async def test_a_compressed_answer(self):
        async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
            assert "gzip" in asked.headers["accept-encoding"]
            await line.answer(
                200, gzip.compress(json.dumps(reply(1)).encode()), "application/json", content_encoding="gzip"
            )

        async with ScriptedHttpServer(script) as server, connected(server, ENVELOPE) as (channel, ear):
            channel.send(request(1))
            await ear.count(1)


class TestFlow:
    async def test_a_paused_channel_reads_no_more(self):
        written = 0

        async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
            nonlocal written
            await line.stream()
            for n in range(1, 20_000):
                await line.event({**progress(n), "pad": "x" * 1000})
                written = n
            await line.event(reply(1))
            line.end()

        async with ScriptedHttpServer(script) as server, connected(server, ENVELOPE) as (channel, ear):
            channel.send(request(1))
            await ear.count(1)
            channel.pause()
            await settled()
            seen, before = len(ear.messages), -1
            while written != before:
                before = written
                await asyncio.sleep(0.05)
            assert len(ear.messages) == seen
            assert written < 19_000
            channel.resume()
            await ear.count(20_000)
        assert ear.messages[-1] == reply(1)

    async def test_a_json_answer_waits_too(self):
        async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
            await line.result(asked)

        async with ScriptedHttpServer(script) as server, connected(server, ENVELOPE) as (channel, ear):
            channel.pause()
            channel.send(request(1))
            await server.until(lambda: server.asked)
            await settled(50)
            assert ear.messages == []
            channel.resume()
            await ear.count(1)

    async def test_too_much_on_its_way_congests_until_the_server_has_taken_it(self):
        let_go = asyncio.Event()

        async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
            await let_go.wait()
            await line.result(asked)

        async with ScriptedHttpServer(script) as server, connected(server, ENVELOPE) as (channel, _ear):
            assert not channel.congested
            channel.send(request(1, text="x" * (HIGH_WATER // 2)))
            assert not channel.congested
            channel.send(request(2, text="x" * (HIGH_WATER // 2)))
            assert channel.congested
            waiting = asyncio.create_task(channel.drained())
            await server.until(lambda: len(server.asked) == 2)
            assert not waiting.done()
            let_go.set()
            await waiting
            assert not channel.congested

    async def test_closing_relieves_who_waits(self):
        async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
            await asyncio.Event().wait()

        async with ScriptedHttpServer(script) as server:
            async with connected(server, ENVELOPE) as (channel, _):
                channel.send(request(1, text="x" * (HIGH_WATER + 1)))
                waiting = asyncio.create_task(channel.drained())
                await settled()
            await waiting


class TestCancelling:
    async def test_on_the_envelope_era_closing_the_stream_is_all(self):
        gone = asyncio.Event()

        async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
            await line.stream()
            await line.event(progress(1))
            await line.until_gone()
            gone.set()

        async with ScriptedHttpServer(script) as server, connected(server, ENVELOPE) as (channel, ear):
            channel.send(request(1))
            await ear.count(1)
            channel.send(notification("notifications/cancelled", requestId=1))
            async with asyncio.timeout(10):
                await gone.wait()
            channel.send(notification("notifications/cancelled", requestId=1))
            await settled()
        assert len(server.asked) == 1
        assert ear.failures == {}

    async def test_on_the_handshake_era_it_is_said_and_then_the_stream_is_left(self):
        gone = asyncio.Event()

        async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
            if await welcome(asked, line):
                return
            await line.stream()
            await line.event(progress(1))
            await line.until_gone()
            gone.set()

        async with ScriptedHttpServer(script) as server, connected(server, HANDSHAKE) as (channel, ear):
            channel.send(request(1))
            await ear.count(1)
            channel.send(notification("notifications/cancelled", requestId=1, reason="tired"))
            async with asyncio.timeout(10):
                await gone.wait()
        (told,) = server.named("notifications/cancelled")
        assert told.message["params"] == {"requestId": 1, "reason": "tired"}


class TestSessions:
    async def test_the_session_goes_with_everything_and_is_ended_at_the_end(self):
        async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
            if not await welcome(asked, line):
                await line.result(asked)

        async with ScriptedHttpServer(script) as server, connected(server) as (channel, ear):
            await handshake(channel, ear)
            channel.send(request(1))
            await ear.count(1)
            await server.until(lambda: server.of("GET"))
            assert channel.session_id == "s1"
        first, *others = server.asked
        assert "mcp-session-id" not in first.headers
        assert {asked.headers["mcp-session-id"] for asked in others} == {"s1"}
        assert {asked.headers["mcp-protocol-version"] for asked in others} == {HANDSHAKE}
        assert [asked.method for asked in others] == [*["POST"] * (len(others) - 2), others[-2].method, "DELETE"]

    async def test_without_a_session_there_is_nothing_to_end(self):
        async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
            await welcome(asked, line, session=None)

        async with ScriptedHttpServer(script) as server, connected(server) as (channel, ear):
            await handshake(channel, ear)
            await server.until(lambda: server.of("GET"))
        assert server.of("DELETE") == []
        assert all("mcp-session-id" not in asked.headers for asked in server.asked)

    async def test_a_session_id_with_odd_characters_is_refused(self):
        async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
            await welcome(asked, line, session="a b")

        async with ScriptedHttpServer(script) as server, connected(server) as (channel, ear):
            channel.send(request(0, "initialize"))
            assert "visible ASCII" in str(await ear.failure(0))

    @pytest.mark.parametrize("id", ["server-error", None, "its own"])
    async def test_404_means_that_the_session_is_over_and_that_nothing_was_run(self, id: str | None):
        sessions = iter(["s1", "s2"])

        async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
            if asked.method == "POST" and asked.message.get("method") == "initialize":
                await line.result(asked, mcp_session_id=next(sessions))
            elif asked.headers.get("mcp-session-id") == "s1" and asked.method == "POST" and asked.id:
                body = {
                    "jsonrpc": "2.0",
                    "id": asked.id if id == "its own" else id,
                    "error": {"code": -32600, "message": "Session not found"},
                }
                await line.json(body, 404)
            elif not await welcome(asked, line):
                await line.result(asked)

        async with ScriptedHttpServer(script) as server, connected(server) as (channel, ear):
            await handshake(channel, ear)
            channel.send(request(1))
            problem = await ear.failure(1)
            assert isinstance(problem, SessionEnded)
            assert (problem.session, problem.ran) == ("s1", False)
            assert (channel.session_id, channel.ended_session) == (None, "s1")
            posts = len(server.of("POST"))
            channel.send(request(2))
            assert isinstance(await ear.failure(2), SessionEnded)
            assert len(server.of("POST")) == posts
            await handshake(channel, ear)
            channel.send(request(3))
            await ear.count(1)
            assert (channel.session_id, channel.ended_session) == ("s2", None)
        assert "mcp-session-id" not in server.named("initialize")[1].headers
        assert server.of("DELETE")[-1].headers["mcp-session-id"] == "s2"

    async def test_404_without_a_session_is_just_404(self):
        async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
            await line.answer(404)

        async with ScriptedHttpServer(script) as server, connected(server, HANDSHAKE) as (channel, ear):
            channel.send(request(1))
            problem = await ear.failure(1)
        assert isinstance(problem, HttpStatus)


class TestClosing:
    async def test_nothing_is_left_behind(self):
        async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
            if asked.method == "GET":
                await line.stream()
                await line.until_gone()
            elif not await welcome(asked, line):
                await asyncio.Event().wait()

        async with ScriptedHttpServer(script) as server:
            before = asyncio.all_tasks()
            async with connected(server) as (channel, ear):
                await handshake(channel, ear)
                channel.send(request(1))
                await server.until(lambda: server.of("GET") and server.named("tools/list"))
                serving = set(server._tasks)  # pyright: ignore[reportPrivateUsage]
            await nothing_left(before | serving)
            channel.send(request(2))
            await channel.close()

    async def test_a_server_that_does_not_react_cannot_hold_it_up(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(http_client, "CLOSE_SECONDS", 0.05)

        async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
            if asked.method == "DELETE" or (asked.method == "POST" and asked.message["method"] == "notifications/x"):
                await asyncio.Event().wait()
            await welcome(asked, line)

        async with ScriptedHttpServer(script) as server:
            loop = asyncio.get_running_loop()
            async with connected(server) as (channel, ear):
                await handshake(channel, ear)
                channel.send(notification("notifications/x"))
                await server.until(lambda: server.named("notifications/x"))
                started = loop.time()
            assert loop.time() - started < 2
        assert server.of("DELETE")

    async def test_the_last_words_are_sent(self):
        async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
            await line.answer(202)

        async with ScriptedHttpServer(script) as server, connected(server, HANDSHAKE) as (channel, _):
            for n in range(5):
                channel.send(notification("notifications/x", n=n))
        assert len(server.asked) == 5


class TestErrors:
    async def test_an_error_that_names_the_request_is_its_answer(self):
        body = {"jsonrpc": "2.0", "id": 1, "error": {"code": -32020, "message": "Header mismatch"}}

        async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
            await line.json(body, 400)

        async with ScriptedHttpServer(script) as server, connected(server, ENVELOPE) as (channel, ear):
            channel.send(request(1))
            await ear.count(1)
        assert ear.messages == [body]
        assert ear.failures == {}

    @pytest.mark.parametrize("id", [{}, {"id": None}, {"id": "server-error"}, {"id": "1"}])
    async def test_one_that_names_none_fails_it_all_the_same(self, id: dict[str, Any]):
        async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
            await line.json({"jsonrpc": "2.0", **id, "error": {"code": -32000, "message": "No.", "data": 5}}, 400)

        async with ScriptedHttpServer(script) as server, connected(server, ENVELOPE) as (channel, ear):
            channel.send(request(1))
            problem = await ear.failure(1)
        assert isinstance(problem, RemoteError)
        assert (problem.code, problem.message, problem.data, problem.status) == (-32000, "No.", 5, 400)

    async def test_an_unknown_method_is_not_found(self):
        async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
            await line.json({"jsonrpc": "2.0", "id": None, "error": {"code": -32601, "message": "No."}}, 404)

        async with ScriptedHttpServer(script) as server, connected(server, ENVELOPE) as (channel, ear):
            channel.send(request(1))
            assert isinstance(await ear.failure(1), NotFound)

    @pytest.mark.parametrize(
        ("status", "body", "kind", "said"),
        [
            (404, b"Not Found", "text/plain", "answered 404 Not Found (check the path of the URL)"),
            (404, b'{"detail":"Gone fishing"}', "application/json", 'Not Found: {"detail":"Gone fishing"} (check'),
            (
                500,
                b"<html><title>Big\n trouble</title>",
                "text/html",
                "answered 500 Internal Server Error: Big trouble",
            ),
            (401, b"", None, "answered 401 Unauthorized (it wants credentials: give a token with auth= or a header"),
            (503, b"later", "text/plain", "answered 503 Service Unavailable: later (the server is not ready"),
            (302, b"", None, "answered 302 Found (it redirects, which only 307 and 308 may)"),
            (599, b"x" * 5000, "text/plain", "answered 599: " + "x" * 200 + "..."),
        ],
    )
    async def test_any_other_error_tells_url_status_and_first_words(
        self, status: int, body: bytes, kind: str | None, said: str
    ):
        async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
            await line.answer(status, body, kind)

        async with ScriptedHttpServer(script) as server, connected(server, ENVELOPE) as (channel, ear):
            channel.send(request(1))
            problem = await ear.failure(1)
        assert isinstance(problem, HttpStatus)
        assert (problem.status, problem.url) == (status, server.url)
        assert str(problem).startswith(server.url)
        assert said in str(problem)

    async def test_when_to_come_back(self):
        async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
            await line.answer(429, retry_after="7")

        async with ScriptedHttpServer(script) as server, connected(server, ENVELOPE) as (channel, ear):
            channel.send(request(1))
            assert "(it is asked too often, try again in 7 s)" in str(await ear.failure(1))

    async def test_a_notification_that_is_not_taken_is_logged(self, caplog: pytest.LogCaptureFixture):
        async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
            await line.answer(400, b"why that?", "text/plain")

        async with ScriptedHttpServer(script) as server, connected(server, HANDSHAKE) as (channel, _):
            channel.send(notification("notifications/x"))
            await until(lambda: "did not accept notifications/x" in caplog.text)
        assert "why that?" in caplog.text
        assert caplog.records[0].levelno == logging.WARNING

    async def test_one_that_is_never_answered_holds_the_others_up_only_so_long(
        self, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setattr(http_client, "DELIVER_SECONDS", 0.02)

        async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
            if asked.message["params"]["n"] == 0:
                await asyncio.Event().wait()
            await line.answer(202)

        async with ScriptedHttpServer(script) as server, connected(server, HANDSHAKE) as (channel, _):
            for n in range(3):
                channel.send(notification("notifications/x", n=n))
            await server.until(lambda: len(server.asked) == 3)
        assert "notifications/x could not be sent: the server does not accept it" in caplog.text

    async def test_a_server_that_hangs_up(self):
        async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
            line.end()

        async with ScriptedHttpServer(script) as server, connected(server, ENVELOPE) as (channel, ear):
            channel.send(request(1))
            problem = await ear.failure(1)
        assert type(problem) is OutcomeUnknown
        assert "closed the connection without an answer" in str(problem)

    async def test_a_server_that_does_not_speak_http(self):
        async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
            await line.send(b"SSH-2.0-OpenSSH\r\n\r\n")

        async with ScriptedHttpServer(script) as server, connected(server, ENVELOPE) as (channel, ear):
            channel.send(request(1))
            assert "not HTTP" in str(await ear.failure(1))

    async def test_a_body_that_breaks_off(self):
        async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
            await line.send(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{")
            line.end()

        async with ScriptedHttpServer(script) as server, connected(server, ENVELOPE) as (channel, ear):
            channel.send(request(1))
            assert type(await ear.failure(1)) is OutcomeUnknown

    @pytest.mark.parametrize(("status", "kind"), [(502, OutcomeUnknown), (504, OutcomeUnknown), (503, HttpStatus)])
    async def test_a_proxy_that_got_no_response_may_have_passed_the_request_on(
        self, status: int, kind: type[ConnectionLost]
    ):
        async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
            await line.answer(status)

        async with ScriptedHttpServer(script) as server, connected(server, ENVELOPE) as (channel, ear):
            channel.send(request(1))
            assert type(await ear.failure(1)) is kind

    async def test_a_server_that_is_not_there(self):
        async def script(asked: RecordedRequest, line: ResponseWriter) -> None: ...

        async with ScriptedHttpServer(script) as server:
            pass
        async with connected(server, ENVELOPE) as (channel, ear):
            channel.send(request(1))
            problem = await ear.failure(1)
        assert type(problem) is ConnectionLost
        assert f"Could not reach {server.url}: " in str(problem)
        assert "Is the server running?" in str(problem)


class TestRedirects:
    @pytest.mark.parametrize("status", [307, 308])
    async def test_within_the_server_they_are_followed_and_remembered(self, status: int):
        async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
            if asked.path == "/mcp":
                await line.answer(status, location="/mcp/")
            else:
                await line.result(asked)

        async with ScriptedHttpServer(script) as server, connected(server, ENVELOPE) as (channel, ear):
            channel.send(request(1))
            await ear.count(1)
            channel.send(request(2))
            await ear.count(2)
        assert [asked.path for asked in server.asked] == ["/mcp", "/mcp/", "/mcp/"]
        assert server.asked[1].body == server.asked[0].body

    async def test_to_another_server_they_are_not(self):
        async def never(asked: RecordedRequest, line: ResponseWriter) -> None:
            raise AssertionError("the token went astray")

        async with ScriptedHttpServer(never) as other:

            async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
                await line.answer(307, location=other.url)

            async with (
                ScriptedHttpServer(script) as server,
                connected(server, ENVELOPE, auth=TokenAuth("secret")) as (channel, ear),
            ):
                channel.send(request(1))
                problem = await ear.failure(1)
            assert isinstance(problem, HttpStatus)
            assert f"redirects to {other.url}, which is another server" in str(problem)
            assert other.asked == []

    async def test_not_in_a_circle(self):
        async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
            await line.answer(307, location="/mcp")

        async with ScriptedHttpServer(script) as server, connected(server, ENVELOPE) as (channel, ear):
            channel.send(request(1))
            assert "redirects in a circle" in str(await ear.failure(1))
        assert len(server.asked) == 6
