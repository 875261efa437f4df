"""The client's end of every transport by hand: each a channel that sends what it is given and shows what comes.

Nothing here is taken from the code under test, so that both cannot be wrong in the same way.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from collections.abc import Coroutine
from typing import Any
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as connect_websocket
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from dovetail.transports.base import Receiver
from tests.support.raw_http import BOTH, EVENTS, JSON, Answer, Line

VERSION = "io.modelcontextprotocol/protocolVersion"
NAMED = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}
WITHOUT_VERSION_HEADER = ("2024-11-05", "2025-03-26")
ENVELOPE = "2026-07-28"


class RawChannel:
    """What all have in common: messages go out in order, and reading happens in tasks of its own."""

    def __init__(self) -> None:
        self._receiver: Receiver
        self._outgoing: asyncio.Queue[bytes] = asyncio.Queue()
        self._tasks: set[asyncio.Task[None]] = set()
        self._pumping: asyncio.Task[None]

    def open(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._pumping = self._begin(self._pump())

    @property
    def congested(self) -> bool:
        return False

    def send(self, line: bytes) -> None:
        self._outgoing.put_nowait(line)

    def flush(self) -> None: ...

    async def drained(self) -> None: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    async def close(self) -> None:
        """Send what is still to be sent, unless that failed, and let go."""
        sent = asyncio.create_task(self._outgoing.join())
        await asyncio.wait({sent, self._pumping}, return_when=asyncio.FIRST_COMPLETED)
        sent.cancel()
        for task in self._tasks:
            task.cancel()
        ended = await asyncio.gather(*self._tasks, return_exceptions=True)
        problems = [each for each in ended if isinstance(each, Exception) and not isinstance(each, OSError)]
        if problems:
            raise problems[0]

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        task.add_done_callback(self._ended)
        self._tasks.add(task)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Whoever waits for a message must not wait for ever when reading or writing failed."""
        if not task.cancelled() and (problem := task.exception()) is not None:
            self._receiver.disconnected(f"{type(problem).__name__}: {problem}")

    async def _pump(self) -> None:
        while True:
            await self._deliver(await self._outgoing.get())
            self._outgoing.task_done()

    async def _deliver(self, line: bytes) -> None:
        raise NotImplementedError


class RawHttp(RawChannel):
    """Streamable HTTP: a connection for each message, the session where there is one, and its GET stream."""

    def __init__(self, url: str, revision: str | None) -> None:
        super().__init__()
        self._url = url
        self._path = urlsplit(url).path
        self._revision = revision
        self._agreed: str | None = None
        self._session: str | None = None
        self._lines: list[Line] = []

    async def close(self) -> None:
        await super().close()
        if self._session is not None:
            answer = await self._ask("DELETE", {"Mcp-Session-Id": self._session})
            assert answer.status == 204, await answer.body()
        await _let_go(self._lines)

    async def _deliver(self, line: bytes) -> None:
        message = _parsed(line)
        headers = {**self._headers(message), "Accept": BOTH, "Content-Type": JSON}
        greeting = isinstance(message, dict) and message.get("method") == "initialize"
        if _waits(message) and not greeting:
            there = await self._line()
            await there.send("POST", self._path, headers.items(), line)
            self._begin(self._await_answer(there))
            return
        answer = await self._ask("POST", headers, line)
        await (self._shake_hands(answer) if greeting else self._tell(message, answer))

    async def _await_answer(self, line: Line) -> None:
        await self._hear(await line.answer())

    async def _shake_hands(self, answer: Answer) -> None:
        body = await answer.body()
        if answer.status == 200 and "result" in (said := json.loads(body)):
            self._agreed = said["result"]["protocolVersion"]
            self._session = answer.headers.get("mcp-session-id")
        self._receiver.received(body)

    async def _tell(self, message: Any, answer: Answer) -> None:
        """A notification or an answer is taken with 202 and no word, or refused with a status that says so."""
        body = await answer.body()
        if answer.status == 202:
            assert body == b""
        else:
            assert answer.status >= 400, (answer.status, body)
            self._receiver.received(body)
        if isinstance(message, dict) and message.get("method") == "notifications/initialized" and self._session:
            stream = await self._ask("GET", {**self._headers(None), "Accept": EVENTS})
            assert (stream.status, stream.kind) == (200, EVENTS)
            self._begin(self._hear(stream))

    async def _hear(self, answer: Answer) -> None:
        if answer.kind == EVENTS:
            async for event in answer.events():
                if event.data:
                    self._receiver.received(event.data.encode())
        elif body := await answer.body():
            assert answer.kind == JSON, (answer.status, body)
            self._receiver.received(body)

    async def _ask(self, method: str, headers: dict[str, str], body: bytes | None = None) -> Answer:
        return await (await self._line()).ask(method, self._path, headers.items(), body)

    async def _line(self) -> Line:
        line = await Line.to(self._url)
        self._lines.append(line)
        return line

    def _headers(self, message: Any) -> dict[str, str]:
        headers = {} if self._session is None else {"Mcp-Session-Id": self._session}
        params = message.get("params") if isinstance(message, dict) else None
        meta = params.get("_meta") if isinstance(params, dict) else None
        version = meta.get(VERSION) if isinstance(meta, dict) else None
        if not isinstance(version, str):
            version = self._agreed or (self._revision if self._revision == ENVELOPE else None)
        if version is not None and version not in WITHOUT_VERSION_HEADER:
            headers["MCP-Protocol-Version"] = version
        if isinstance(message, dict) and isinstance(method := message.get("method"), str):
            headers["Mcp-Method"] = method
            name = params.get(NAMED.get(method)) if isinstance(params, dict) else None
            if isinstance(name, str):
                headers["Mcp-Name"] = _fit(name)
        return headers


class RawSse(RawChannel):
    """HTTP+SSE: one stream to hear, and POSTs to where its first event says."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url
        self._endpoint: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._lines: list[Line] = []

    def open(self, receiver: Receiver) -> None:
        super().open(receiver)
        self._begin(self._hear())

    async def close(self) -> None:
        await super().close()
        await _let_go(self._lines)

    async def _hear(self) -> None:
        line = await Line.to(self._url)
        self._lines.append(line)
        answer = await line.ask("GET", urlsplit(self._url).path, [("Accept", EVENTS)])
        first = await answer.next()
        assert first is not None and first.name == "endpoint" and first.data
        self._endpoint.set_result(first.data)
        async for event in answer.events():
            assert event.name == "message" and event.data
            self._receiver.received(event.data.encode())
        self._receiver.disconnected(None)

    async def _deliver(self, line: bytes) -> None:
        async with await Line.to(self._url) as there:
            answer = await there.ask("POST", await self._endpoint, [("Content-Type", JSON)], line)
            body = await answer.body()
            if answer.status != 202:
                assert answer.status == 400, (answer.status, body)
                self._receiver.received(body)


class RawWebSocket(RawChannel):
    """A WebSocket: one message a text frame."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url
        self._socket: ClientConnection | None = None

    async def close(self) -> None:
        await super().close()
        if self._socket is not None:
            await self._socket.close()

    async def _pump(self) -> None:
        self._socket = await connect_websocket(self._url, subprotocols=[Subprotocol("mcp")], compression=None)
        assert self._socket.subprotocol == "mcp"
        self._begin(self._hear(self._socket))
        await super()._pump()

    async def _hear(self, socket: ClientConnection) -> None:
        with contextlib.suppress(ConnectionClosed):
            while True:
                frame = await socket.recv()
                assert isinstance(frame, str)
                self._receiver.received(frame.encode())
        self._receiver.disconnected(None)

    async def _deliver(self, line: bytes) -> None:
        assert self._socket is not None
        await self._socket.send(line.decode())


class RawLines(RawChannel):
    """A Unix or TCP socket: one message a line."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url
        self._writer: asyncio.StreamWriter | None = None

    async def close(self) -> None:
        await super().close()
        if self._writer is not None:
            self._writer.close()
            await self._writer.wait_closed()

    async def _pump(self) -> None:
        if self._url.startswith("unix:"):
            reader, self._writer = await asyncio.open_unix_connection(self._url.removeprefix("unix:"), limit=1 << 24)
        else:
            parts = urlsplit(self._url)
            reader, self._writer = await asyncio.open_connection(parts.hostname, parts.port, limit=1 << 24)
        self._begin(self._hear(reader))
        await super()._pump()

    async def _hear(self, reader: asyncio.StreamReader) -> None:
        while line := await reader.readline():
            self._receiver.received(line.removesuffix(b"\n"))
        self._receiver.disconnected(None)

    async def _deliver(self, line: bytes) -> None:
        assert self._writer is not None
        self._writer.write(line + b"\n")


def raw_channel(url: str, revision: str | None) -> RawChannel:
    """A channel to what an address names."""
    if url.startswith("ws"):
        return RawWebSocket(url)
    if url.startswith(("unix:", "tcp:")):
        return RawLines(url)
    return RawSse(url) if url.endswith("/sse") else RawHttp(url, revision)


async def _let_go(lines: list[Line]) -> None:
    for line in lines:
        line.abort()
        await line.close()


def _parsed(line: bytes) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None


def _waits(message: Any) -> bool:
    """Whether a message is answered, in its own time."""
    if isinstance(message, list):
        return not message or any(_waits(each) for each in message)
    return not isinstance(message, dict) or ("id" in message and "method" in message)


def _fit(value: str) -> str:
    """A value as a header can carry it."""
    if value.isascii() and value.isprintable() and value == value.strip():
        return value
    return f"=?base64?{base64.b64encode(value.encode()).decode()}?="
