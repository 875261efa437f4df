"""Messages over real WebSockets: our ends against each other, and each against one by hand, under a real uvicorn."""

from __future__ import annotations

import asyncio
import contextlib
import http.server
import json
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, cast

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed, InvalidStatus

from dovetail import ConnectionLost, LocalError, Server
from dovetail.protocol.envelope import request_meta
from dovetail.protocol.revisions import HANDSHAKE, NEWEST, REVISIONS
from dovetail.transports import websocket
from dovetail.transports.base import HIGH_WATER
from dovetail.transports.memory import MemoryChannel
from dovetail.transports.websocket import AsgiWebSocketChannel, WebSocketChannel, connect_websocket
from dovetail.types.capabilities import ClientCapabilities, Implementation
from dovetail.wire.lines import TooLong
from tests.support.http import serving
from tests.support.raw import PATIENCE
from tests.support.served import Caller
from tests.support.tidy import nothing_left_on_the_loop
from tests.support.waiting import settled, until
from tests.transports.collector import Collector

LIMIT = 10_000
FLOOD = 64 * 1024 * 1024


class Place:
    """An application that takes WebSockets; what arrives is one channel after another, or is served."""

    def __init__(self, server: Server | None = None, *, grace: float = 5.0) -> None:
        self.url = ""
        self.open = 0
        self._server = server
        self._grace = grace
        self._arrived: asyncio.Queue[AsgiWebSocketChannel] = asyncio.Queue()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "websocket":
            return
        channel = AsgiWebSocketChannel(receive, send, LIMIT)
        if not await channel.accept(scope["subprotocols"]):
            return
        self.open += 1
        try:
            if self._server is not None:
                await self._server.serve(channel, grace=self._grace)
            else:
                closed = Closing(channel)
                self._arrived.put_nowait(closed)
                await closed.done.wait()
        finally:
            self.open -= 1

    async def arrived(self) -> AsgiWebSocketChannel:
        return await asyncio.wait_for(self._arrived.get(), PATIENCE)


class Closing(AsgiWebSocketChannel):
    """The channel of a connection that the application keeps until the test closes it."""

    def __init__(self, channel: AsgiWebSocketChannel) -> None:
        super().__init__(channel._receive, channel._send, LIMIT)  # pyright: ignore[reportPrivateUsage]
        self.done = asyncio.Event()

    async def close(self) -> None:
        await super().close()
        self.done.set()


@contextlib.asynccontextmanager
async def placed(server: Server | None = None, *, grace: float = 5.0, **options: Any) -> AsyncIterator[Place]:
    """A place under uvicorn; at the end no task and no descriptor is left."""
    async with nothing_left_on_the_loop():
        place = Place(server, grace=grace)
        async with serving(place, lifespan="off", **options) as url:
            place.url = url.replace("http", "ws")
            yield place
            await until(lambda: not place.open)
        await settled()


def raw(place: Place, **options: Any) -> connect:
    """A client by hand; compressed, a flood of what is all alike would be a trickle."""
    return connect(place.url, proxy=None, compression=None, **{"subprotocols": ["mcp"], **options})


@contextlib.asynccontextmanager
async def both(place: Place) -> AsyncIterator[tuple[ClientConnection, AsgiWebSocketChannel, Collector]]:
    """A client by hand, the channel that serves it, and who listens there."""
    async with raw(place, max_size=None) as client:
        channel, seen = await place.arrived(), Collector()
        channel.open(seen)
        try:
            yield client, channel, seen
        finally:
            await channel.close()


async def flood(channel: AsgiWebSocketChannel | WebSocketChannel) -> int:
    """Send until the channel is congested, obeying it; how many messages that took."""
    count = 0
    async with asyncio.timeout(PATIENCE):
        while not channel.congested:
            channel.send(b"x" * 10_000)
            count += 1
            await asyncio.sleep(0)
    return count


def desk() -> Server:
    server = Server("desk")

    @server.tool
    async def echo(text: str) -> str:
        return text

    return server


class TestServerSide:
    async def test_frames_are_messages_both_ways(self):
        async with placed() as place, both(place) as (client, channel, seen):
            assert client.subprotocol == "mcp"
            for text in ("one", "zwei ☃", '{\n "three": 3\n}'):
                await client.send(text)
            channel.send("grüße".encode())
            await seen.count(3)
            assert seen.lines == [b"one", "zwei ☃".encode(), b'{\n "three": 3\n}']
            assert await client.recv() == "grüße"

    async def test_a_fragmented_message_is_one_message(self):
        async with placed() as place, both(place) as (client, _, seen):
            await client.send(["a", "b", "c"])
            await seen.count(1)
            assert seen.lines == [b"abc"]

    @pytest.mark.parametrize(("offered", "chosen"), [(None, None), (["mcp"], "mcp"), (["other", "mcp"], "mcp")])
    async def test_the_subprotocol_is_mcp_unless_the_client_names_none(self, offered: Any, chosen: str | None):
        async with placed(desk()) as place, raw(place, subprotocols=offered) as client:
            assert client.subprotocol == chosen

    async def test_a_client_that_offers_only_other_subprotocols_is_refused(self):
        async with placed(desk()) as place:
            with pytest.raises(InvalidStatus) as refused:
                await raw(place, subprotocols=["soap", "graphql-ws"])
            assert refused.value.response.status_code == 403

    async def test_a_message_above_our_limit_is_refused_alone(self):
        async with placed() as place, both(place) as (client, _, seen):
            await client.send("x" * (LIMIT + 1))
            await client.send("next")
            await seen.count(2)
            assert isinstance(seen.lines[0], TooLong)
            assert seen.lines[0].size == LIMIT + 1
            assert seen.lines[1] == b"next"

    async def test_the_sender_of_an_overlong_message_gets_an_error(self):
        async with placed(desk()) as place, raw(place) as client:
            long = {"jsonrpc": "2.0", "id": 7, "method": "ping", "params": {"filler": "x" * LIMIT}}
            await client.send(json.dumps(long))
            answer = json.loads(await client.recv())
            assert answer["id"] == 7
            assert "too long" in answer["error"]["message"]
            assert await echoed(client, "still here") == "still here"

    async def test_a_message_above_the_limit_of_uvicorn_closes_with_1009(self):
        async with placed(ws_max_size=20_000) as place, both(place) as (client, _, seen):
            await client.send("x" * 20_001)
            await seen.end()
            with pytest.raises(ConnectionClosed):
                await client.recv()
            assert client.close_code == 1009

    async def test_a_binary_frame_closes_with_1003(self):
        async with placed(desk()) as place, raw(place) as client:
            await client.send(b"{}")
            with pytest.raises(ConnectionClosed):
                await client.recv()
            assert (client.close_code, client.close_reason) == (1003, "messages are text, not binary")

    async def test_text_that_is_no_utf8_closes_with_1007(self):
        async with placed() as place, both(place) as (client, _, seen):
            await client.send(b"\xff\xfe", text=True)
            await seen.end()
            assert client.close_code == 1007 or await closed_with(client) == 1007

    async def test_a_client_that_closes_is_disconnected(self):
        async with placed() as place, both(place) as (client, channel, seen):
            await client.send("last")
            await client.close()
            await seen.end()
            assert seen.lines == [b"last"]
            assert seen.ends == ["the peer closed the connection"], "it does not read any more either"
            channel.send(b"to nobody")
            assert not channel.congested

    async def test_a_client_that_vanishes_is_disconnected(self):
        async with placed() as place, both(place) as (client, channel, seen):
            await flood(channel)
            waiting = asyncio.create_task(channel.drained())
            client.transport.abort()
            await seen.end()
            await asyncio.wait_for(waiting, PATIENCE)

    async def test_closing_sends_the_code_of_a_server_that_goes_away(self):
        async with placed() as place, both(place) as (client, channel, seen):
            channel.send(b"last words")
            await channel.close()
            assert await client.recv() == "last words"
            assert await closed_with(client) == 1001
            await channel.close()
            assert not seen.ends, "who closes is not told of it"

    async def test_a_peer_that_does_not_read_congests_the_channel_until_it_does(self):
        async with placed() as place, both(place) as (client, channel, _):
            sent = await flood(channel)
            assert HIGH_WATER < sent * 10_000 < FLOOD
            waiting = asyncio.create_task(channel.drained())
            await settled()
            assert not waiting.done()
            for _ in range(sent):
                await client.recv()
            await asyncio.wait_for(waiting, PATIENCE)
            assert not channel.congested

    async def test_a_paused_channel_makes_the_peer_wait_and_loses_nothing(self):
        frame = "x" * 9_000
        async with placed() as place, both(place) as (client, channel, seen):
            seen.on_line = lambda _: channel.pause() if len(seen.lines) == 2 else None

            async def fill() -> None:
                for _ in range(FLOOD // len(frame)):
                    await client.send(frame)

            filling = asyncio.create_task(fill())
            await seen.count(2)
            await asyncio.wait({filling}, timeout=0.2)
            assert not filling.done()
            assert len(seen.lines) == 2
            channel.resume()
            await filling
            await seen.count(FLOOD // len(frame))

    async def test_closing_is_bounded_when_the_peer_does_not_read(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(websocket, "_CLOSE_SECONDS", 0.1)
        async with placed() as place, both(place) as (client, channel, _):
            await flood(channel)
            begun = time.monotonic()
            await channel.close()
            assert time.monotonic() - begun < 5
            client.transport.abort()

    async def test_many_short_frames_leave_the_loop_its_turns(self):
        async with placed() as place, both(place) as (client, channel, seen):
            channel.pause()
            turns = 0

            async def count_turns() -> None:
                nonlocal turns
                while len(seen.lines) < 20_000:
                    turns += 1
                    await asyncio.sleep(0)

            sending = asyncio.gather(*(client.send("1") for _ in range(20_000)))
            await settled()
            channel.resume()
            await count_turns()
            await sending
            assert turns > 20

    async def test_pings_are_answered_and_sent_by_uvicorn(self):
        async with placed(ws_ping_interval=0.01, ws_ping_timeout=5) as place, both(place) as (client, _, seen):
            await (await client.ping())
            await client.send("still here")
            await seen.count(1)


async def closed_with(client: ClientConnection) -> int | None:
    with contextlib.suppress(ConnectionClosed):
        while True:
            await client.recv()
    return client.close_code


async def echoed(client: ClientConnection, text: str, revision: str = NEWEST.name) -> str:
    """Call the tool `echo` by hand."""
    params: dict[str, Any] = {"name": "echo", "arguments": {"text": text}}
    if REVISIONS[revision].era == "envelope":
        params["_meta"] = request_meta(REVISIONS[revision], Implementation("c", "1"), ClientCapabilities())
    await client.send(json.dumps({"jsonrpc": "2.0", "id": text, "method": "tools/call", "params": params}))
    answer = json.loads(await client.recv())
    assert answer["id"] == text
    return answer["result"]["content"][0]["text"]


async def greet(client: ClientConnection, revision: str) -> None:
    if REVISIONS[revision].era == "handshake":
        params = {"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
        await client.send(json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}))
        assert json.loads(await client.recv())["result"]["protocolVersion"] == revision
        await client.send('{"jsonrpc": "2.0", "method": "notifications/initialized"}')


class TestServing:
    @pytest.mark.parametrize("revision", REVISIONS)
    async def test_every_revision_is_served_to_a_hand_written_client(self, revision: str):
        async with placed(desk()) as place, raw(place) as client:
            await greet(client, revision)
            assert await echoed(client, "hello", revision) == "hello"

    @pytest.mark.parametrize("revision", REVISIONS)
    async def test_every_revision_is_served_to_our_client(self, revision: str):
        async with placed(desk()) as place:
            channel = await connect_websocket(place.url)
            caller = Caller(cast("MemoryChannel", channel), revision, ClientCapabilities())
            await caller.open()
            assert (await caller.call("echo", text="hello"))["content"][0]["text"] == "hello"
            await channel.close()

    async def test_two_hundred_clients_are_served_at_once(self):
        async with placed(desk()) as place:

            async def visit(n: int) -> str:
                async with raw(place) as client:
                    revision = [NEWEST.name, HANDSHAKE[-1]][n % 2]
                    await greet(client, revision)
                    return await echoed(client, str(n), revision)

            assert await asyncio.gather(*map(visit, range(200))) == [str(n) for n in range(200)]

    async def test_calls_of_a_client_that_vanished_are_stopped(self):
        server, steps = Server("s"), list[str]()

        @server.tool
        async def wait() -> None:
            steps.append("begun")
            try:
                await asyncio.Event().wait()
            finally:
                steps.append("stopped")

        async with placed(server, grace=PATIENCE) as place, raw(place) as client:
            await greet(client, HANDSHAKE[-1])
            call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "wait"}}
            await client.send(json.dumps(call))
            await until(lambda: steps == ["begun"])
            client.transport.abort()
            await until(lambda: steps == ["begun", "stopped"])

    async def test_a_client_that_sends_requests_and_never_reads_costs_little_memory(self):
        server, calls = Server("s"), 0

        @server.tool
        async def much() -> str:
            nonlocal calls
            calls += 1
            return "x" * 100_000

        async with placed(server, grace=0.1) as place, raw(place, max_queue=1) as client:
            await greet(client, HANDSHAKE[-1])

            async def ask_and_ask() -> None:
                for id in range(1, 1_000_000):
                    call = {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "much"}}
                    await client.send(json.dumps(call))

            asking, before = asyncio.create_task(ask_and_ask()), -1
            while calls != before or calls == 0:
                before = calls
                await asyncio.wait({asking}, timeout=0.2)
            assert not asking.done()
            assert calls * 100_000 < FLOOD
            asking.cancel()
            client.transport.abort()


Handler = Callable[[ServerConnection], Awaitable[None]]


@contextlib.asynccontextmanager
async def foreign(handler: Handler, **options: Any) -> AsyncIterator[str]:
    """A server by hand, and its URL."""
    async with nothing_left_on_the_loop():
        async with serve(handler, "127.0.0.1", 0, **{"subprotocols": ["mcp"], "max_size": None, **options}) as server:
            yield f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        await settled()


async def parrot(server: ServerConnection) -> None:
    async for message in server:
        await server.send(message)


class TestClientSide:
    async def test_frames_are_messages_both_ways(self):
        async with foreign(parrot) as url:
            channel, seen = await connect_websocket(url), Collector()
            channel.open(seen)
            for line in (b"one", "☃".encode()):
                channel.send(line)
            await seen.count(2)
            assert seen.lines == [b"one", "☃".encode()]
            await channel.close()
            assert not seen.ends

    async def test_closing_is_normal_for_a_client_and_nothing_sent_is_lost(self):
        got: list[str | bytes] = []
        codes: list[int | None] = []

        async def keep(server: ServerConnection) -> None:
            got.extend([message async for message in server])
            codes.append(server.close_code)

        async with foreign(keep) as url:
            channel = await connect_websocket(url)
            channel.open(Collector())
            for n in range(1000):
                channel.send(b"%d" % n)
            await channel.close()
            await until(lambda: codes)
        assert got == [str(n) for n in range(1000)]
        assert codes == [1000]

    async def test_headers_are_sent_with_the_handshake(self):
        async def tell(server: ServerConnection) -> None:
            assert server.request is not None
            await server.send(server.request.headers["Authorization"])

        async with foreign(tell) as url:
            channel, seen = await connect_websocket(url, headers={"Authorization": "Bearer me"}), Collector()
            channel.open(seen)
            await seen.count(1)
            assert seen.lines == [b"Bearer me"]
            await channel.close()

    @pytest.mark.parametrize(
        ("code", "reason", "told"),
        [
            (1000, "", "the peer closed the connection"),
            (1001, "tea time", "the peer closed the connection: tea time"),
            (1011, "out of paper", "the WebSocket was closed with code 1011: out of paper"),
        ],
    )
    async def test_a_server_that_closes_disconnects_with_its_reason(self, code: int, reason: str, told: str):
        async with foreign(lambda server: server.close(code, reason)) as url:
            channel, seen = await connect_websocket(url), Collector()
            channel.open(seen)
            await seen.end()
            assert seen.ends == [told]
            await channel.close()

    async def test_a_server_that_vanishes_disconnects_with_a_reason(self):
        async def vanish(server: ServerConnection) -> None:
            server.transport.abort()

        async with foreign(vanish) as url:
            channel, seen = await connect_websocket(url), Collector()
            channel.open(seen)
            await seen.end()
            assert seen.ends == ["the connection broke"]
            await channel.close()

    async def test_a_binary_frame_ends_the_connection(self):
        codes: list[int | None] = []

        async def send_bytes(server: ServerConnection) -> None:
            await server.send(b"bytes")
            await server.wait_closed()
            codes.append(server.close_code)

        async with foreign(send_bytes) as url:
            channel, seen = await connect_websocket(url), Collector()
            channel.open(seen)
            await seen.end()
            assert seen.lines == []
            assert "binary" in str(seen.ends[0])
            await channel.close()
            await until(lambda: codes)
        assert codes == [1003]

    async def test_a_message_too_long_ends_the_connection(self):
        async with foreign(lambda server: server.send("x" * 1001)) as url:
            channel, seen = await connect_websocket(url, max_message=1000), Collector()
            channel.open(seen)
            await seen.end()
            assert "more than 1000 bytes" in str(seen.ends[0])
            await channel.close()

    async def test_a_server_that_does_not_read_congests_the_channel_and_cannot_hold_it(
        self, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setattr(websocket, "_CLOSE_SECONDS", 0.1)
        go = asyncio.Event()

        async def idle(server: ServerConnection) -> None:
            await go.wait()
            server.transport.abort()

        async with foreign(idle, max_queue=1) as url:
            channel = await connect_websocket(url)
            channel.open(Collector())
            assert await flood(channel) * 10_000 < FLOOD
            begun = time.monotonic()
            await channel.close()
            assert time.monotonic() - begun < 5
            go.set()

    async def test_a_cancelled_close_releases_the_socket(self):
        go = asyncio.Event()

        async def idle(server: ServerConnection) -> None:
            await go.wait()
            server.transport.abort()

        async with foreign(idle, max_queue=1) as url:
            channel = await connect_websocket(url)
            channel.open(Collector())
            await flood(channel)
            closing = asyncio.create_task(channel.close())
            await settled()
            closing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await closing
            go.set()

    async def test_pings_detect_a_server_that_is_silent(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(websocket, "_CLOSE_SECONDS", 0.1)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.setblocking(False)
            loop = asyncio.get_running_loop()
            url = f"ws://127.0.0.1:{listener.getsockname()[1]}"
            connecting = asyncio.create_task(connect_websocket(url, ping_interval=0.05, ping_timeout=0.05))
            peer, _ = await loop.sock_accept(listener)
            with peer:
                await answer_handshake(peer)
                channel, seen = await connecting, Collector()
                channel.open(seen)
                await seen.end()
                assert "ping timeout" in str(seen.ends[0])
                await channel.close()


async def answer_handshake(peer: socket.socket) -> None:
    """Accept a WebSocket and never answer anything again."""
    from websockets.http11 import Request
    from websockets.server import ServerProtocol

    loop, protocol = asyncio.get_running_loop(), ServerProtocol(subprotocols=cast("Any", ["mcp"]))
    while not (events := protocol.events_received()):
        protocol.receive_data(await loop.sock_recv(peer, 65536))
    assert isinstance(events[0], Request)
    protocol.send_response(protocol.accept(events[0]))
    await loop.sock_sendall(peer, b"".join(protocol.data_to_send()))


@contextlib.contextmanager
def web_page(status: int, body: bytes = b"", location: str = "") -> Iterator[str]:
    """A web server that answers everything alike."""

    class Page(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.send_response(status)
            if location:
                self.send_header("Location", location)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(body)

        def log_request(self, code: object = "-", size: object = "-") -> None: ...

    with http.server.HTTPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"ws://127.0.0.1:{server.server_port}/mcp/ws"
        finally:
            server.shutdown()
            thread.join()


class TestConnecting:
    @pytest.mark.parametrize(
        ("status", "body", "location", "sentence"),
        [
            (404, b"Not\nhere", "", r"/mcp/ws answered HTTP 404 \(Not here\), not with a WebSocket"),
            (200, b"", "", "answered HTTP 200, not"),
            (302, b"", "ws://127.0.0.1:1/", r"answered HTTP 302 \(to ws://127.0.0.1:1/\), not"),
        ],
    )
    async def test_a_response_that_is_no_websocket_raises_with_its_status(
        self, status: int, body: bytes, location: str, sentence: str
    ):
        async with nothing_left_on_the_loop():
            with web_page(status, body, location) as url, pytest.raises(ConnectionLost, match=sentence):
                await connect_websocket(url)
            await settled()

    async def test_a_refused_connection_raises_connection_lost(self):
        with socket.socket() as bound:
            bound.bind(("127.0.0.1", 0))
            url = f"ws://127.0.0.1:{bound.getsockname()[1]}"
            with pytest.raises(ConnectionLost, match=f"Could not connect to {url}: .*"):
                await connect_websocket(url)

    async def test_a_server_that_does_not_respond_raises_after_the_timeout(self):
        async with nothing_left_on_the_loop():
            with socket.create_server(("127.0.0.1", 0)) as listener:
                url = f"ws://127.0.0.1:{listener.getsockname()[1]}"
                with pytest.raises(ConnectionLost, match=r"did not answer within 0.1 s"):
                    await connect_websocket(url, open_timeout=0.1)
                await settled()

    @pytest.mark.parametrize("url", ["http://127.0.0.1/", "nonsense", "ws://"])
    async def test_a_url_of_another_scheme_raises_connection_lost(self, url: str):
        with pytest.raises(ConnectionLost, match="is not the URL of a WebSocket"):
            await connect_websocket(url)

    async def test_a_server_with_another_subprotocol_is_refused(self):
        async with foreign(parrot, subprotocols=None) as url:
            with pytest.raises(ConnectionLost, match="not one with the subprotocol 'mcp'"):
                await connect_websocket(url)

    async def test_proxies_of_the_environment_are_used_only_on_request(self, monkeypatch: pytest.MonkeyPatch):
        with socket.socket() as nobody:
            nobody.bind(("127.0.0.1", 0))
            proxy = f"http://127.0.0.1:{nobody.getsockname()[1]}"
            for name in ("http_proxy", "https_proxy", "all_proxy"):
                monkeypatch.setenv(name, proxy)
            monkeypatch.delenv("no_proxy", raising=False)
            monkeypatch.delenv("NO_PROXY", raising=False)
            async with foreign(parrot) as url:
                await (await connect_websocket(url)).close()
                with pytest.raises(ConnectionLost):
                    await connect_websocket(url, proxy=True)

    async def test_an_error_names_the_package_that_is_missing(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setitem(sys.modules, "websockets.asyncio.client", None)
        with pytest.raises(LocalError, match=r"dovetail-mcp\[http\]"):
            await connect_websocket("ws://127.0.0.1:1")
