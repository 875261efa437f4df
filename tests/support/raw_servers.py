"""The server's end of every transport by hand: each serves a function from a message to the messages that it causes.

Nothing here is taken from the code under test, so that both cannot be wrong in the same way.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from websockets.asyncio.server import ServerConnection
from websockets.asyncio.server import serve as serve_websocket
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

Answer = Callable[[Any], list[Any]]
"""What a message causes: messages, bytes to be sent as they are, or None for the end of the server."""

NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}


def encoded(message: Any) -> bytes:
    """Bytes as they are, anything else as JSON."""
    return message if isinstance(message, bytes) else json.dumps(message).encode()


class RawServer:
    """Listens on the loopback until it is told to end, or ends by itself."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._listener: asyncio.Server
        self._writers: set[asyncio.StreamWriter] = set()
        self._serving: set[asyncio.Task[Any]] = set()
        self.complaints: list[str] = []
        """What the client did that it must not do."""

    @contextlib.asynccontextmanager
    async def listening(self, path: Path | None = None) -> AsyncIterator[str]:
        """Listen at a port, or at the path of a Unix socket; yields host and port, or the path."""
        if path is None:
            self._listener = await asyncio.start_server(self._connected, "127.0.0.1", 0, limit=1 << 24)
            host, port = self._listener.sockets[0].getsockname()
            where = f"{host}:{port}"
        else:
            self._listener = await asyncio.start_unix_server(self._connected, path, limit=1 << 24)
            where = str(path)
        try:
            yield where
        finally:
            self.end()
            await asyncio.gather(*self._serving, return_exceptions=True)
        assert not self.complaints, self.complaints

    def end(self) -> None:
        """Be gone: nobody can connect any more, and what is open breaks."""
        self._listener.close()
        for writer in self._writers:
            writer.transport.abort()
        for task in self._serving:
            if task is not asyncio.current_task():
                task.cancel()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        self._writers.add(writer)
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await self._serve(reader, writer)
        finally:
            self._serving.discard(task)
            self._writers.discard(writer)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Newline framing, as over stdio."""
        while line := await reader.readline():
            for message in self._answer(json.loads(line)):
                if message is None:
                    self.end()
                    return
                writer.write(encoded(message) + b"\n")


class Request:
    """An HTTP request that has arrived whole."""

    def __init__(self, method: str, path: str, headers: dict[str, str], body: bytes) -> None:
        self.method = method
        self.path = path
        self.headers = headers
        self.body = body


async def read_request(reader: asyncio.StreamReader) -> Request | None:
    """The next request of a connection, None at its end."""
    if not (first := await reader.readline()):
        return None
    method, path, _ = first.decode().split(" ")
    headers: dict[str, str] = {}
    while (line := await reader.readline()) != b"\r\n":
        name, _, value = line.decode().partition(":")
        headers[name.lower()] = value.strip()
    return Request(method, path, headers, await reader.readexactly(int(headers.get("content-length", 0))))


def respond(writer: asyncio.StreamWriter, status: str, kind: str = "", body: bytes = b"", headers: str = "") -> None:
    """Write a response that is known whole; headers are lines."""
    of = f"Content-Type: {kind}\r\n" if kind else ""
    length = "" if status.startswith("204") else f"Content-Length: {len(body)}\r\n"
    writer.write(f"HTTP/1.1 {status}\r\n{of}{headers}{length}\r\n".encode() + body)


def begin_events(writer: asyncio.StreamWriter) -> None:
    """Write the head of a response that ends with its connection."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")


class RawHttpServer(RawServer):
    """Streamable HTTP, with sessions where there is a handshake and without a stream of its own.

    It notes where the client does not send the headers that it must send.
    """

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer)
        self._agreed: str | None = None
        self._session: str | None = None
        self.ended_sessions: list[str] = []

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (request := await read_request(reader)) is not None:
            if request.method == "POST":
                message = json.loads(request.body)
                self._judge_post(request, message)
                if await self._post(reader, writer, message):
                    return
            else:
                self._expect(request, {"mcp-session-id": self._session, "mcp-protocol-version": self._agreed})
                if request.method == "DELETE" and self._session is not None:
                    self.ended_sessions.append(self._session)
                respond(writer, "405 Method Not Allowed" if request.method == "GET" else "204 No Content")

    async def _post(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, message: dict[str, Any]) -> bool:
        """Answer one message; whether the connection is over."""
        messages = self._answer(message)
        if "id" not in message or "method" not in message:
            respond(writer, "202 Accepted")
        elif None in messages:
            self.end()
        elif not messages:
            # Silence: the connection stays open until the client gives up.
            await reader.read()
        elif len(messages) == 1 and isinstance(messages[0], dict):
            more = self._begin_session(messages[0])
            respond(writer, "200 OK", "application/json", encoded(messages[0]), more)
        else:
            begin_events(writer)
            writer.writelines(b"data: " + encoded(each) + b"\n\n" for each in messages)
            return True
        return False

    def _begin_session(self, message: dict[str, Any]) -> str:
        version = (message.get("result") or {}).get("protocolVersion")
        if version is None:
            return ""
        self._agreed, self._session = version, "odd-session"
        return f"Mcp-Session-Id: {self._session}\r\n"

    def _judge_post(self, request: Request, message: dict[str, Any]) -> None:
        """What clients MUST send with every POST."""
        method, params = message.get("method"), message.get("params") or {}
        version = (params.get("_meta") or {}).get("io.modelcontextprotocol/protocolVersion")
        expected: dict[str, str | None] = {"content-type": "application/json"}
        if version is not None:
            expected["mcp-protocol-version"], expected["mcp-method"] = version, method
            expected["mcp-name"] = params.get(NAMED.get(method or ""))
        elif method != "initialize":
            expected["mcp-protocol-version"], expected["mcp-session-id"] = self._agreed, self._session
        else:
            expected["mcp-session-id"] = None
        self._expect(request, expected)
        accepts = {part.strip() for part in request.headers.get("accept", "").split(",")}
        if not {"application/json", "text/event-stream"} <= accepts:
            self.complaints.append(f"Accept is {request.headers.get('accept')}")

    def _expect(self, request: Request, headers: dict[str, str | None]) -> None:
        for name, value in headers.items():
            if (found := request.headers.get(name)) != value:
                said = f"{request.method} {request.body.decode()}"
                self.complaints.append(f"{name} is {found!r}, not {value!r}, with {said}")


class RawSseServer(RawServer):
    """HTTP+SSE for one client at a time."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer)
        self._stream: asyncio.StreamWriter | None = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (request := await read_request(reader)) is not None:
            if request.method == "GET" and request.path == "/sse":
                self._stream = writer
                begin_events(writer)
                writer.write(b"event: endpoint\ndata: /messages?session_id=1\n\n")
                await reader.read()
                return
            if request.method != "POST" or request.path != "/messages?session_id=1":
                respond(writer, "405 Method Not Allowed")
                continue
            assert self._stream is not None
            for message in self._answer(json.loads(request.body)):
                if message is None:
                    self.end()
                    return
                self._stream.write(b"event: message\ndata: " + encoded(message) + b"\n\n")
            respond(writer, "202 Accepted", "text/plain", b"Accepted")


@contextlib.asynccontextmanager
async def websocket_server(answer: Answer) -> AsyncIterator[str]:
    """A WebSocket; yields host and port."""

    async def serve(connection: ServerConnection) -> None:
        with contextlib.suppress(ConnectionClosed):
            async for frame in connection:
                for message in answer(json.loads(frame)):
                    if message is None:
                        listener.close()
                        return
                    await connection.send(encoded(message).decode())

    async with serve_websocket(
        serve, "127.0.0.1", 0, subprotocols=[Subprotocol("mcp")], compression=None, ping_interval=None
    ) as listener:
        host, port = next(iter(listener.sockets)).getsockname()
        yield f"{host}:{port}"
