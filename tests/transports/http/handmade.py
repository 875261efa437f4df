"""An HTTP server that runs a script, and a receiver that records what a channel delivers."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, Self

from dovetail.wire import codec
from dovetail.wire.jsonrpc import Id
from dovetail.wire.lines import TooLong
from tests.support.raw import PATIENCE

META = "io.modelcontextprotocol/"
ENVELOPE = "2026-07-28"


class RecordedRequest(NamedTuple):
    """One request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    connection: int

    @property
    def message(self) -> dict[str, Any]:
        return json.loads(self.body)

    @property
    def id(self) -> Any:
        return self.message.get("id")


class ResponseWriter:
    """Where the answer to one request is written."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        with contextlib.suppress(ConnectionError):
            await self.writer.drain()

    async def answer(self, status: int, body: bytes = b"", kind: str | None = None, **headers: str) -> None:
        head = [f"HTTP/1.1 {status} X", f"content-length: {len(body)}"]
        if kind is not None:
            head.append(f"content-type: {kind}")
        head += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        await self.send("\r\n".join(head).encode() + b"\r\n\r\n" + body)

    async def json(self, message: object, status: int = 200, **headers: str) -> None:
        await self.answer(status, json.dumps(message).encode(), "application/json", **headers)

    async def result(self, asked: RecordedRequest, result: dict[str, Any] | None = None, **headers: str) -> None:
        await self.json({"jsonrpc": "2.0", "id": asked.id, "result": result or {}}, 200, **headers)

    async def stream(self, **headers: str) -> None:
        """Begin a stream of events, which lasts until the connection ends."""
        more = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
        await self.send(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n")
        await self.send(more.encode() + b"\r\n")

    async def event(self, message: object = None, id: str | None = None, retry: int | None = None) -> None:
        lines = [] if id is None else [f"id: {id}"]
        lines += [] if retry is None else [f"retry: {retry}"]
        lines.append("data: " + ("" if message is None else json.dumps(message)))
        await self.send(("\n".join(lines) + "\n\n").encode())

    def end(self) -> None:
        """End the connection."""
        self.writer.close()

    def cut(self) -> None:
        """Break the connection."""
        self.writer.transport.abort()

    async def until_gone(self) -> None:
        """Send comments until the client has gone, which only shows when something is sent."""
        async with asyncio.timeout(PATIENCE):
            while not self.writer.transport.is_closing():
                await self.send(b": still here\n\n")
                await asyncio.sleep(0.001)


Script = Callable[[RecordedRequest, ResponseWriter], Awaitable[None]]


class ScriptedHttpServer:
    """Serves with a script; records the requests, in order."""

    def __init__(self, script: Script, *, greeting: bytes = b"", **options: Any) -> None:
        self._script = script
        self._greeting = greeting
        self._options = options
        self._news = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._problems: list[Exception] = []
        self.asked: list[RecordedRequest] = []
        self.connections = 0
        self.scheme = "https" if "ssl" in options else "http"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, **self._options)
        self.port: int = self._server.sockets[0].getsockname()[1]
        self.url = f"{self.scheme}://127.0.0.1:{self.port}/mcp"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._problems:
            raise self._problems[0]

    def of(self, method: str) -> list[RecordedRequest]:
        """What was asked with this HTTP method."""
        return [asked for asked in self.asked if asked.method == method]

    def named(self, method: str) -> list[RecordedRequest]:
        """The messages of this JSON-RPC method."""
        return [asked for asked in self.of("POST") if asked.message.get("method") == method]

    async def until(self, true: Callable[[], object]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not true():
                self._news.clear()
                await self._news.wait()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        number = self.connections
        line = ResponseWriter(writer)
        try:
            await line.send(self._greeting)
            while not writer.transport.is_closing():
                asked = await _read(reader, number)
                self.asked.append(asked)
                self._news.set()
                await self._script(asked, line)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        except asyncio.CancelledError:
            # Not re-raised: the streams of asyncio would report it as an error.
            pass
        except Exception as problem:
            self._problems.append(problem)
        finally:
            self._tasks.discard(task)
            writer.transport.abort()


async def _read(reader: asyncio.StreamReader, connection: int) -> RecordedRequest:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *rest = head.split("\r\n")
    method, path, _ = first.split(" ", 2)
    headers: dict[str, str] = {}
    for line in rest:
        if line:
            name, _, value = line.partition(":")
            assert name.lower() not in headers, f"{name} came twice"
            headers[name.lower()] = value.strip()
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return RecordedRequest(method, path, headers, body, connection)


class RecordingReceiver:
    """Records messages, failures and disconnections."""

    def __init__(self) -> None:
        self.messages: list[Any] = []
        self.failures: dict[Id, Exception] = {}
        self.ends: list[str | None] = []
        self._news = asyncio.Event()

    def received(self, line: bytes) -> codec.Decoded:
        self.messages.append(json.loads(line))
        self._news.set()
        return codec.decode(line)

    def overlong(self, line: TooLong) -> None:
        raise AssertionError("HTTP has no lines")

    def failed(self, id: Id, problem: Exception) -> None:
        self.failures.setdefault(id, problem)
        self._news.set()

    def disconnected(self, reason: str | None) -> None:
        self.ends.append(reason)
        self._news.set()

    async def until(self, true: Callable[[], object]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not true():
                self._news.clear()
                await self._news.wait()

    async def count(self, messages: int) -> None:
        await self.until(lambda: len(self.messages) >= messages)

    async def failure(self, id: Id) -> Exception:
        await self.until(lambda: id in self.failures)
        return self.failures[id]


def request(id: int, method: str = "tools/list", version: str | None = None, **params: Any) -> bytes:
    """A request of ours; with a version it is one of the envelope era."""
    if version is not None:
        params["_meta"] = {META + "protocolVersion": version}
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode()


def notification(method: str, **params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode()


def reply(id: Id, **result: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "result": result}


def progress(value: int) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 1, "progress": value}}
