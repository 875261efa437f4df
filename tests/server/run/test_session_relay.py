"""Several workers at one port: a session works from any connection, whichever worker it reaches."""

import asyncio
import contextlib
import signal
import stat
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dovetail.server.run import session_relay as relaying
from dovetail.server.run.session_relay import CHUNK, RELAYED, SessionRelay, WorkerConnection
from tests.support.http_process import Answer, HttpCaller, HttpProcess
from tests.support.raw import ENVELOPE, HANDSHAKE, children
from tests.support.waiting import until

LINGERING = Path(__file__).parents[2] / "faults" / "servers" / "lingering.py"
MANY = 12
"""Connections enough that both workers get some: all at one would be one in 2,000."""


@pytest.fixture(scope="module")
def pair() -> Iterator[HttpProcess]:
    """Two workers."""
    with HttpProcess(LINGERING, "--workers", "2", "--grace", "5") as server:
        yield server
        server.signal(signal.SIGTERM)
        assert server.wait() == 0
        assert "Traceback" not in server.stderr, server.stderr


def where(client: HttpCaller) -> int:
    """The process that served a call."""
    return int(client.call("which").messages()[-1]["result"]["content"][0]["text"])


class TestSessions:
    def test_a_session_lives_in_one_worker_and_is_reached_from_any_connection(self, pair: HttpProcess) -> None:
        clients = [pair.client() for _ in range(MANY)]
        homes = [{where(client) for _ in range(MANY // 2)} for client in clients]
        assert all(len(home) == 1 for home in homes)
        assert set().union(*homes) == set(children(pair.process.pid))

    def test_events_pass_the_relay_as_they_come(self, pair: HttpProcess) -> None:
        for client in [pair.client() for _ in range(MANY)]:
            call = client.call("linger", seconds=0.05)
            assert call.message()["params"]["message"] == "begun"
            assert call.messages()[-1]["result"]["content"][0]["text"] == "done"

    def test_large_bodies_pass_the_relay_whole(self, pair: HttpProcess) -> None:
        text = "äx" * 200_000
        for client in [pair.client() for _ in range(4)]:
            for _ in range(4):
                assert client.call("echo", text=text).messages()[-1]["result"]["content"][0]["text"] == text

    def test_an_elicitation_is_answered_over_any_connection(self, pair: HttpProcess) -> None:
        for _ in range(MANY):
            client = HttpCaller(pair, HANDSHAKE, {"elicitation": {}})
            call = client.call("ask", question="Who?")
            question = call.message()
            assert question["method"] == "elicitation/create"
            answer = {"action": "accept", "content": {"value": "Ann"}}
            assert client.post({"jsonrpc": "2.0", "id": question["id"], "result": answer}).status == 202
            assert call.messages()[-1]["result"]["content"][0]["text"] == "accept: Ann"

    def test_a_session_is_ended_from_any_connection(self, pair: HttpProcess) -> None:
        for client in [pair.client() for _ in range(MANY)]:
            stream = client.stream()
            assert stream.status == 200
            assert client.delete().status in (200, 204)
            stream.rest()
            assert client.call("which").status == 404

    def test_a_session_of_a_worker_that_does_not_exist_is_unknown(self, pair: HttpProcess) -> None:
        client = pair.client()
        for foreign in ("w7-" + client.session[3:], "w999-", "w-", "w1000-x", "x"):
            client.session = foreign
            assert client.call("which").status == 404

    def test_a_session_of_http_sse_is_reached_from_any_connection(self, pair: HttpProcess) -> None:
        for _ in range(MANY // 2):
            client = HttpCaller(pair, ENVELOPE)
            stream = client.get("/sse")
            assert stream.line() == b"event: endpoint\n"
            path = stream.line().decode().removeprefix("data: ").strip()
            params = {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
            connection = pair.connect()
            body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
            connection.request("POST", path, str(body).replace("'", '"'), {"content-type": "application/json"})
            posted = Answer(connection)
            assert posted.status == 202, posted.rest()
            posted.close()
            assert stream.message()["id"] == 1
            stream.close()

    def test_the_envelope_era_is_served_by_any_worker(self, pair: HttpProcess) -> None:
        client = pair.client(ENVELOPE)
        assert {where(client) for _ in range(MANY)} == set(children(pair.process.pid))


App = Callable[[Any, Any, Any], Awaitable[None]]


class Request:
    """A request at the front worker, as its web server would present it."""

    def __init__(self, *parts: bytes, session: bytes = b"w1-abc", query: bytes = b"") -> None:
        self.scope: dict[str, Any] = {
            "type": "http",
            "method": "POST",
            "path": "/mcp",
            "query_string": query,
            "headers": [(b"host", b"x"), *([(b"mcp-session-id", session)] if session else [])],
            "client": ("127.0.0.1", 4711),
        }
        self._parts = list(parts) or [b""]
        self.gone = asyncio.Event()
        self.sent: list[dict[str, Any]] = []

    async def receive(self) -> dict[str, Any]:
        if self._parts:
            body = self._parts.pop(0)
            return {"type": "http.request", "body": body, "more_body": bool(self._parts)}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        self.sent.append(message)

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent)


@contextlib.asynccontextmanager
async def two(folder: Path, app: App) -> AsyncIterator[SessionRelay]:
    """The front worker, and one behind it that runs an application."""
    front, behind = SessionRelay(str(folder), 0, 2), SessionRelay(str(folder), 1, 2)
    await behind.open(app)  # type: ignore[arg-type]
    try:
        yield front
    finally:
        await behind.close()


async def whole_body(receive: Any) -> bytes:
    parts: list[bytes] = []
    while True:
        message = await receive()
        parts.append(message["body"])
        if not message["more_body"]:
            return b"".join(parts)


class TestForwarding:
    async def test_request_and_response_arrive_unchanged(self, tmp_path: Path) -> None:
        seen: list[Any] = []

        async def app(scope: Any, receive: Any, send: Any) -> None:
            body = await whole_body(receive)
            seen.append((scope["method"], scope["path"], scope["headers"], tuple(scope["client"]), len(body)))
            assert scope[RELAYED]
            await send({"type": "http.response.start", "status": 201, "headers": [(b"a", b"\xff")]})
            await send({"type": "http.response.body", "body": body, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})

        async with two(tmp_path, app) as front:
            for size in (0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK, 1_000_000):
                request = Request(b"x" * size, b"y")
                assert await front.forward(request.scope, request.receive, request.send)
                assert request.body == b"x" * size + b"y"
                assert (request.sent[0]["status"], request.sent[0]["headers"]) == (201, [(b"a", b"\xff")])
                assert all(len(message.get("body", b"")) <= CHUNK for message in request.sent)
                assert [message.get("more_body") for message in request.sent[1:]][-1] is False
        assert seen[-1] == ("POST", "/mcp", request.scope["headers"], ("127.0.0.1", 4711), 1_000_001)

    @pytest.mark.parametrize(
        ("session", "query"),
        [
            (b"", b""),
            (b"w0-abc", b""),
            (b"w2-abc", b""),
            (b"abc", b""),
            (b"W1-abc", b""),
            (b"", b"a=1&xsession_id=w1-"),
        ],
    )
    async def test_a_request_for_this_worker_or_for_none_is_not_forwarded(
        self, tmp_path: Path, session: bytes, query: bytes
    ) -> None:
        request = Request(session=session, query=query)
        assert not await SessionRelay(str(tmp_path), 0, 2).forward(request.scope, request.receive, request.send)
        assert request.sent == []

    async def test_a_forwarded_request_is_not_forwarded_again(self, tmp_path: Path) -> None:
        request = Request()
        request.scope[RELAYED] = True
        assert not await SessionRelay(str(tmp_path), 0, 2).forward(request.scope, request.receive, request.send)

    async def test_a_disconnect_of_the_client_reaches_the_other_worker(self, tmp_path: Path) -> None:
        gone = asyncio.Event()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            await whole_body(receive)
            await send({"type": "http.response.start", "status": 200, "headers": []})
            assert (await receive())["type"] == "http.disconnect"
            gone.set()

        async with two(tmp_path, app) as front:
            request = Request(b"{}")
            passing = asyncio.create_task(front.forward(request.scope, request.receive, request.send))
            await until(lambda: request.sent)
            request.gone.set()
            await gone.wait()
            assert await passing
            assert len(request.sent) == 1

    async def test_a_slow_reader_slows_the_writer(self, tmp_path: Path) -> None:
        written = 0

        async def app(scope: Any, receive: Any, send: Any) -> None:
            nonlocal written
            await send({"type": "http.response.start", "status": 200, "headers": []})
            for _ in range(1000):
                await send({"type": "http.response.body", "body": b"x" * CHUNK, "more_body": True})
                written += CHUNK
            await send({"type": "http.response.body", "body": b"", "more_body": False})

        class Slow(Request):
            async def send(self, message: Any) -> None:
                if len(self.sent) > 3:
                    await reads.wait()
                await super().send(message)

        reads = asyncio.Event()
        async with two(tmp_path, app) as front:
            request = Slow(b"")
            passing = asyncio.create_task(front.forward(request.scope, request.receive, request.send))
            before = -1
            while before != written:
                before = written
                await asyncio.sleep(0.1)
            assert 0 < written < 3_000_000
            reads.set()
            assert await passing
            assert len(request.body) == 1000 * CHUNK

    @pytest.mark.parametrize("kind", [b"text/event-stream", b"application/json"])
    async def test_an_interrupted_event_stream_ends_and_an_interrupted_body_does_not(
        self, tmp_path: Path, kind: bytes
    ) -> None:
        async def app(scope: Any, receive: Any, send: Any) -> None:
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind)]})
            await send({"type": "http.response.body", "body": b"a", "more_body": True})

        async with two(tmp_path, app) as front:
            request = Request(b"")
            assert await front.forward(request.scope, request.receive, request.send)
            ended = request.sent[-1].get("more_body") is False
            assert ended == (kind == b"text/event-stream")

    async def test_without_the_other_worker_the_client_is_told_to_retry(self, tmp_path: Path) -> None:
        async def app(scope: Any, receive: Any, send: Any) -> None: ...

        for front in (SessionRelay(str(tmp_path), 0, 2), SessionRelay(str(tmp_path / "nowhere"), 0, 2)):
            request = Request(b"")
            assert await front.forward(request.scope, request.receive, request.send)
            assert request.sent[0]["status"] == 503 and (b"retry-after", b"1") in request.sent[0]["headers"]
        async with two(tmp_path, app) as front:  # it is there, and dies before it says anything
            request = Request(b"")
            assert await front.forward(request.scope, request.receive, request.send)
            assert request.sent[0]["status"] == 503

    async def test_the_number_of_forwarded_requests_is_bounded(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(relaying, "MAX_RELAYED", 0)
        request = Request(b"")
        assert await SessionRelay(str(tmp_path), 0, 2).forward(request.scope, request.receive, request.send)
        assert request.sent[0]["status"] == 503

    async def test_an_early_response_ends_a_body_that_is_still_coming(self, tmp_path: Path) -> None:
        async def app(scope: Any, receive: Any, send: Any) -> None:
            await receive()
            await send({"type": "http.response.start", "status": 413, "headers": []})
            await send({"type": "http.response.body", "body": b"too large"})

        class Endless(Request):
            async def receive(self) -> dict[str, Any]:
                await asyncio.sleep(0)
                return {"type": "http.request", "body": b"x" * CHUNK, "more_body": True}

        async with two(tmp_path, app) as front:
            request = Endless()
            assert await front.forward(request.scope, request.receive, request.send)
            assert request.sent[0]["status"] == 413

    @pytest.mark.parametrize(
        "junk", [b"\xff\xff\xff\xff", b"\x00\x00\x00\x01\xc1", b"\x00\x00\x00\x09", b"GET / HTTP/1.1\r\n"]
    )
    async def test_invalid_frames_are_not_served(self, tmp_path: Path, junk: bytes) -> None:
        served: list[Any] = []

        async def app(scope: Any, receive: Any, send: Any) -> None:
            served.append(scope)

        async with two(tmp_path, app):
            reader, writer = await asyncio.open_unix_connection(str(tmp_path / "1"))
            writer.write(junk)
            writer.write_eof()
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""
            WorkerConnection(reader, writer).abort()
        assert served == []


def test_only_the_user_can_reach_the_sockets_of_the_workers(pair: HttpProcess) -> None:
    import tempfile

    ours = [
        folder
        for folder in Path(tempfile.gettempdir()).glob("dovetail-*")
        if folder.is_dir() and {path.name for path in folder.iterdir()} >= {"0", "1"}
    ]
    assert ours
    assert all(stat.S_IMODE(folder.stat().st_mode) == 0o700 for folder in ours)
