"""The client's end of HTTP+SSE, against servers that do exactly what the test says."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from dovetail.protocol.errors import ConnectionLost, DovetailError, HttpStatus, InvalidAnswer, LocalError, RemoteError
from dovetail.protocol.revisions import REVISIONS
from dovetail.transports import legacy_sse
from dovetail.transports.base import HIGH_WATER
from dovetail.transports.http.aiohttp_client import AiohttpClient
from dovetail.transports.http.contract import HttpOptions
from dovetail.transports.http.requester import HttpRequester, TokenAuth
from dovetail.transports.legacy_sse import LegacySseChannel
from tests.support.peer import nothing_left
from tests.support.waiting import settled, until
from tests.transports.http.handmade import (
    RecordedRequest,
    RecordingReceiver,
    ResponseWriter,
    ScriptedHttpServer,
    notification,
    progress,
    reply,
    request,
)

ENDPOINT = b"event: endpoint\ndata: /messages?session_id=1\n\n"


class Old(ScriptedHttpServer):
    """A server of the old transport: one stream, and messages that are taken."""

    def __init__(self, first: bytes = ENDPOINT, **options: Any) -> None:
        super().__init__(self._talk, **options)
        self._first = first
        self.stream: ResponseWriter
        self.post: Callable[[RecordedRequest, ResponseWriter], Any] = self._take

    async def _talk(self, asked: RecordedRequest, line: ResponseWriter) -> None:
        if asked.method == "GET":
            self.stream = line
            await line.stream()
            await line.send(self._first)
            await line.until_gone()
        else:
            await self.post(asked, line)

    async def _take(self, asked: RecordedRequest, line: ResponseWriter) -> None:
        await line.answer(202, b"Accepted", "text/plain")
        if asked.id is not None:
            await self.stream.event(reply(asked.id, n=asked.id))


@contextlib.asynccontextmanager
async def connected(
    server: ScriptedHttpServer, **how: Any
) -> AsyncIterator[tuple[LegacySseChannel, RecordingReceiver]]:
    client = AiohttpClient(HttpOptions(), server.url)
    channel, ear = LegacySseChannel(HttpRequester(client, server.url, **how), 100_000), RecordingReceiver()
    try:
        await channel.connect()
        channel.open(ear)
        yield channel, ear
    finally:
        await channel.close()
        await client.close()


class TestConnecting:
    async def test_the_first_event_says_where_messages_go(self):
        async with Old() as server, connected(server, auth=TokenAuth("t")) as (channel, ear):
            channel.agreed(REVISIONS["2024-11-05"])
            channel.send(request(1, "tools/call", name="x"))
            await ear.count(1)
        assert ear.messages == [reply(1, n=1)]
        get, post = server.asked
        assert get.headers["accept"] == "text/event-stream"
        assert post.path == "/messages?session_id=1"
        assert post.headers["mcp-name"] == "x"
        assert post.headers["mcp-protocol-version"] == "2024-11-05"
        assert {asked.headers["authorization"] for asked in server.asked} == {"Bearer t"}

    async def test_what_comes_right_after_it_is_not_lost(self):
        first = ENDPOINT + b"data: " + json.dumps(progress(1)).encode() + b"\n\n"
        async with Old(first) as server, connected(server) as (_, ear):
            await ear.count(1)
        assert ear.messages == [progress(1)]

    async def test_a_whole_url_of_the_same_server(self):
        async with Old() as server:
            server._first = f"event: endpoint\ndata: {server.url}/there\n\n".encode()
            async with connected(server) as (channel, ear):
                channel.send(request(1))
                await ear.count(1)
        assert server.asked[-1].path == "/mcp/there"

    @pytest.mark.parametrize("where", ["http://evil.invalid/x", "//evil.invalid/x", "http://127.0.0.1:1/x"])
    async def test_another_server_is_refused(self, where: str):
        async with Old(f"event: endpoint\ndata: {where}\n\n".encode()) as server:
            with pytest.raises(InvalidAnswer, match="which is another server"):
                async with connected(server):
                    pass
        assert len(server.asked) == 1

    @pytest.mark.parametrize(
        ("first", "kind"),
        [
            (b"data: {}\n\n", InvalidAnswer),
            (b"event: other\ndata: x\n\n", InvalidAnswer),
            (b"data: " + b"x" * 200_000, InvalidAnswer),
            (b"", ConnectionLost),
        ],
    )
    async def test_something_else_first(self, first: bytes, kind: type[Exception], monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(legacy_sse, "ENDPOINT_SECONDS", 0.2)
        async with Old(first) as server:
            with pytest.raises(kind):
                async with connected(server):
                    pass

    @pytest.mark.parametrize(
        ("status", "type", "kind"),
        [(404, None, HttpStatus), (200, "text/html", InvalidAnswer), (202, None, DovetailError)],
    )
    async def test_no_stream_at_all(self, status: int, type: str | None, kind: type[Exception]):
        async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
            await line.answer(status, kind=type)

        async with ScriptedHttpServer(script) as server:
            with pytest.raises(kind):
                async with connected(server):
                    pass

    async def test_open_comes_after_connect(self):
        async with Old() as server:
            client = AiohttpClient(HttpOptions(), server.url)
            with pytest.raises(LocalError, match="connect"):
                LegacySseChannel(HttpRequester(client, server.url)).open(RecordingReceiver())
            await client.close()


class TestSending:
    async def test_initialized_is_taken_before_anything_is_asked(self):
        async with Old() as server, connected(server) as (channel, ear):
            taken: list[str] = []

            async def slowly(asked: RecordedRequest, line: ResponseWriter) -> None:
                if asked.id is None:
                    await settled(30)
                taken.append(asked.message["method"])
                await server._take(asked, line)

            server.post = slowly
            channel.send(notification("notifications/initialized"))
            channel.send(request(1))
            await ear.count(1)
        assert taken == ["notifications/initialized", "tools/list"]

    async def test_a_message_that_is_refused(self):
        async def refuse(asked: RecordedRequest, line: ResponseWriter) -> None:
            if asked.id == 1:
                await line.answer(400, b"no", "text/plain")
            elif asked.id == 2:
                await line.json({"jsonrpc": "2.0", "id": None, "error": {"code": -32000, "message": "no"}}, 400)
            else:
                await line.json({"jsonrpc": "2.0", "id": 3, "error": {"code": -32000, "message": "no"}}, 400)

        async with Old() as server, connected(server) as (channel, ear):
            server.post = refuse
            for n in (1, 2, 3):
                channel.send(request(n))
            assert isinstance(await ear.failure(1), HttpStatus)
            assert isinstance(await ear.failure(2), RemoteError)
            await ear.count(1)
        assert ear.messages[0]["id"] == 3

    async def test_a_notification_that_is_refused_is_logged(self, caplog: pytest.LogCaptureFixture):
        async def refuse(asked: RecordedRequest, line: ResponseWriter) -> None:
            await line.answer(400, b"not that", "text/plain")

        async with Old() as server, connected(server) as (channel, _):
            server.post = refuse
            channel.send(notification("notifications/x"))
            await until(lambda: "not that" in caplog.text)

    async def test_too_much_on_its_way_congests(self):
        let_go = asyncio.Event()

        async def slowly(asked: RecordedRequest, line: ResponseWriter) -> None:
            await let_go.wait()
            await line.answer(202)

        async with Old() as server, connected(server) as (channel, _):
            server.post = slowly
            channel.send(request(1, text="x" * HIGH_WATER))
            assert channel.congested
            waiting = asyncio.create_task(channel.drained())
            await settled()
            assert not waiting.done()
            let_go.set()
            await waiting
            assert not channel.congested


class TestReading:
    async def test_paused_it_reads_no_more(self):
        async with Old() as server, connected(server) as (channel, ear):
            await server.stream.event(progress(0))
            await ear.count(1)
            channel.pause()
            await server.stream.event(progress(1))
            await asyncio.sleep(0.02)
            seen = len(ear.messages)
            await server.stream.event(progress(2))
            await asyncio.sleep(0.02)
            assert len(ear.messages) == seen
            channel.resume()
            await ear.count(3)

    @pytest.mark.parametrize("how", ["end", "cut"])
    async def test_the_end_of_the_stream_is_the_end(self, how: str):
        async with Old() as server, connected(server) as (channel, ear):
            getattr(server.stream, how)()
            await ear.until(lambda: ear.ends)
            assert len(ear.ends) == 1
            assert (ear.ends[0] or "").startswith(server.url)
            assert not channel.congested
            channel.send(request(1))
        assert server.of("POST") == []

    async def test_an_event_that_is_too_long(self):
        async with Old() as server, connected(server) as (_, ear):
            await server.stream.send(b"data: " + b"x" * 200_000)
            await ear.until(lambda: ear.ends)
        assert "more than 100000 bytes" in (ear.ends[0] or "")


class TestClosing:
    async def test_nothing_is_left_behind(self):
        async def never(asked: RecordedRequest, line: ResponseWriter) -> None:
            await asyncio.Event().wait()

        async with Old() as server:
            before = asyncio.all_tasks()
            async with connected(server) as (channel, _):
                server.post = never
                channel.send(request(1))
                await server.until(lambda: server.of("POST"))
                serving = set(server._tasks)
            await nothing_left(before | serving)


@pytest.mark.attack("L17")
async def test_the_body_of_an_accepted_post_is_not_read_without_end():
    sent = 0

    async def endless(asked: RecordedRequest, line: ResponseWriter) -> None:
        nonlocal sent
        await line.send(b"HTTP/1.1 202 X\r\ncontent-type: text/plain\r\nconnection: close\r\n\r\n")
        async with asyncio.timeout(20):
            while not line.writer.transport.is_closing() and sent < 200_000_000:
                await line.send(b"x" * 65_536)
                sent += 65_536
                await asyncio.sleep(0)
        await server.stream.event(reply(asked.id, n=1))

    async with Old() as server, connected(server) as (channel, ear):
        server.post = endless
        channel.send(request(1))
        await ear.count(1)
    assert ear.messages == [reply(1, n=1)]
    # What the sockets hold, and what one read takes, besides the bound itself.
    assert sent < 20_000_000
