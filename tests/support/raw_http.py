"""HTTP/1.1 by hand over real sockets: exact bytes out, and whatever comes back, events included.

Nothing here is taken from the code under test, so that both cannot be wrong in the same way.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import urlsplit

from tests.support.http import Asgi, serving

ENVELOPE = "2026-07-28"
SESSIONS = ["2025-03-26", "2025-06-18", "2025-11-25"]
"""The revisions with sessions over HTTP."""

JSON = "application/json"
EVENTS = "text/event-stream"
BOTH = f"{JSON}, {EVENTS}"

Pairs = Iterable[tuple[str, Any]]

_PREFIX = "io.modelcontextprotocol/"
_ids = itertools.count(1)


@dataclass
class Event:
    """One server-sent event; a comment is one too, with nothing but its text."""

    data: str | None = None
    id: str | None = None
    name: str = "message"
    retry: int | None = None
    comment: str | None = None

    @property
    def message(self) -> dict[str, Any]:
        """The JSON-RPC message in it."""
        assert self.data, self
        return json.loads(self.data)


class Line:
    """One TCP connection to a server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str) -> None:
        self.reader = reader
        self.writer = writer
        self.host = host

    @classmethod
    async def to(cls, url: str, *, receive_buffer: int | None = None) -> Self:
        """Connect; a small receive buffer makes a reader that stalls be felt soon."""
        parts = urlsplit(url)
        # Named, since asyncio switches off the waiting for more (TCP_NODELAY) only for what says that it is TCP.
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        sock.setblocking(False)
        limit = 1 << 20
        if receive_buffer is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
            limit = receive_buffer
        await asyncio.get_running_loop().sock_connect(sock, (parts.hostname, parts.port))
        reader, writer = await asyncio.open_connection(sock=sock, limit=limit)
        return cls(reader, writer, parts.netloc)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def write(self, data: bytes) -> None:
        """Send these bytes."""
        self.writer.write(data)
        await self.writer.drain()

    async def send(self, method: str, path: str, headers: Pairs = (), body: bytes | None = None) -> None:
        """Send a request; Host and Content-Length are there unless they are given, as None to leave them out."""
        given = list(headers)
        names = {name.lower() for name, _ in given}
        if "host" not in names:
            given.insert(0, ("Host", self.host))
        if body is not None and not names & {"content-length", "transfer-encoding"}:
            given.append(("Content-Length", str(len(body))))
        lines = [f"{method} {path} HTTP/1.1".encode()]
        lines += [name.encode() + b": " + _bytes(value) for name, value in given if value is not None]
        await self.write(b"\r\n".join(lines) + b"\r\n\r\n" + (body or b""))

    async def answer(self) -> Answer:
        """The head of the next response; its body is read from there."""
        status = await self.reader.readline()
        assert status.startswith(b"HTTP/1.1 "), status or "the server closed the connection"
        pairs: list[tuple[str, str]] = []
        while (line := await self.reader.readline()) not in (b"\r\n", b""):
            name, _, value = line.decode("latin-1").partition(":")
            pairs.append((name.lower(), value.strip()))
        # A server that waits for an acknowledgement before it sends the rest of its answer gets it at once.
        self.writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        return Answer(self, int(status.split()[1]), pairs)

    async def ask(self, method: str, path: str, headers: Pairs = (), body: bytes | None = None) -> Answer:
        """Send a request and wait for the head of its response."""
        await self.send(method, path, headers, body)
        return await self.answer()

    def abort(self) -> None:
        """Go away without a farewell: the other side gets a reset."""
        sock: socket.socket = self.writer.get_extra_info("socket")
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        self.writer.transport.abort()

    def half_close(self) -> None:
        """Say that nothing more will be sent; what comes is still read."""
        self.writer.write_eof()

    async def ended(self) -> bool:
        """Wait for the server to close; True if nothing came before that."""
        with contextlib.suppress(ConnectionError):
            return await self.reader.read(1) == b""
        return True

    async def close(self) -> None:
        """Close it as a well-behaved client does."""
        self.writer.close()
        with contextlib.suppress(ConnectionError):
            await self.writer.wait_closed()


@dataclass
class Answer:
    """A response whose head has arrived."""

    line: Line
    status: int
    pairs: list[tuple[str, str]]
    _raw: bytearray = field(default_factory=bytearray)
    _ended: bool = False

    @property
    def headers(self) -> dict[str, str]:
        """The headers by lower-case name; one that came twice is joined."""
        found: dict[str, str] = {}
        for name, value in self.pairs:
            found[name] = f"{found[name]}, {value}" if name in found else value
        return found

    @property
    def kind(self) -> str:
        """The content type, without parameters."""
        return self.headers.get("content-type", "").split(";")[0]

    async def body(self) -> bytes:
        """All of it."""
        parts: list[bytes] = []
        while part := await self._more():
            parts.append(part)
        return b"".join(parts)

    async def json(self) -> Any:
        """The body, which must be JSON."""
        body = await self.body()
        assert self.kind == JSON, (self.status, self.headers, body)
        return json.loads(body)

    async def error(self) -> dict[str, Any]:
        """The JSON-RPC error in the body."""
        return (await self.json())["error"]

    async def next(self, *, comments: bool = False) -> Event | None:
        """The next event, or None at the end of the stream."""
        assert self.kind == EVENTS, (self.status, self.headers)
        while True:
            found = self._cut()
            if found is None:
                part = await self._more()
                if not part:
                    assert not self._raw, f"the stream was cut in the middle of {bytes(self._raw)!r}"
                    return None
                self._raw += part
            elif comments or found.comment is None:
                return found

    async def events(self, *, comments: bool = False) -> AsyncIterator[Event]:
        """Every event until the stream ends."""
        while (event := await self.next(comments=comments)) is not None:
            yield event

    async def all(self) -> list[Event]:
        """The events until the end of the stream."""
        return [event async for event in self.events()]

    async def messages(self) -> list[dict[str, Any]]:
        """The messages until the end of the stream, without events that only bring an id."""
        return [event.message async for event in self.events() if event.data]

    async def message(self) -> dict[str, Any]:
        """The next message of the stream."""
        while (event := await self.next()) is not None:
            if event.data:
                return event.message
        raise AssertionError("the stream ended")

    async def answer(self) -> dict[str, Any]:
        """The answer to the request, as JSON or as the last event."""
        if self.kind == EVENTS:
            *_, last = await self.messages()
            return last
        return await self.json()

    async def _more(self) -> bytes:
        """Some more of the body; nothing at its end."""
        if self._ended:
            return b""
        headers, reader = self.headers, self.line.reader
        if headers.get("transfer-encoding") == "chunked":
            size = int(await reader.readline(), 16)
            part = await reader.readexactly(size)
            await reader.readexactly(2)
            self._ended = size == 0
            return part
        self._ended = True
        return await reader.readexactly(int(headers.get("content-length", 0)))

    def _cut(self) -> Event | None:
        """Take one event off what has been read."""
        end = self._raw.find(b"\n\n")
        if end < 0:
            return None
        text = bytes(self._raw[:end]).decode()
        del self._raw[: end + 2]
        event = Event()
        for line in text.split("\n"):
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if name == "":
                event.comment = value
            elif name == "data":
                event.data = value if event.data is None else f"{event.data}\n{value}"
            elif name == "id":
                event.id = value
            elif name == "event":
                event.name = value
            elif name == "retry":
                event.retry = int(value)
            else:
                raise AssertionError(f"{name!r} is no field of an event: {text!r}")
        return event


class Site:
    """An endpoint, spoken to with a new connection for each request; all are closed at the end."""

    def __init__(self, url: str, path: str = "/mcp", **headers: str) -> None:
        self.url = url
        self.path = path
        self.usual = _named(headers)
        self.lines: list[Line] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for line in self.lines:
            line.abort()

    async def connect(self, **options: Any) -> Line:
        """One more connection."""
        line = await Line.to(self.url, **options)
        self.lines.append(line)
        return line

    async def ask(
        self, method: str, headers: Mapping[str, Any] | Pairs = (), body: bytes | None = None, path: str | None = None
    ) -> Answer:
        """Send a request on a connection of its own."""
        given = _pairs(headers)
        named = {name.lower() for name, _ in given}
        given += [(name, value) for name, value in self.usual if name.lower() not in named]
        return await (await self.connect()).ask(method, self.path if path is None else path, given, body)

    async def post(self, message: Any, headers: Mapping[str, Any] | Pairs = (), path: str | None = None) -> Answer:
        """POST a message: bytes as they are, or anything else as JSON."""
        given = _pairs(headers)
        named = {name.lower() for name, _ in given}
        for name, value in (("Accept", BOTH), ("Content-Type", JSON)):
            if name.lower() not in named:
                given.append((name, value))
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        return await self.ask("POST", given, body, path)

    async def modern(self, method: str, headers: Mapping[str, Any] | Pairs = (), **params: Any) -> Answer:
        """A request of the envelope era, with its headers unless they are given (None leaves one out)."""
        message = modern(method, **params)
        given = _pairs(headers)
        named = {name.lower() for name, _ in given}
        given += [(name, value) for name, value in modern_headers(message).items() if name.lower() not in named]
        return await self.post(message, given)

    async def call(self, tool: str, headers: Mapping[str, Any] | Pairs = (), **arguments: Any) -> Answer:
        """Call a tool on the envelope era."""
        return await self.modern("tools/call", headers, name=tool, arguments=arguments)

    async def session(self, revision: str, **options: Any) -> Session:
        """Shake hands and begin a session."""
        return await Session(self, revision).begin(**options)


class Session:
    """A session of the handshake era."""

    def __init__(self, site: Site, revision: str, id: str = "") -> None:
        self.site = site
        self.revision = revision
        self.id = id
        self.result: dict[str, Any] = {}

    async def begin(self, *, ready: bool = True, **capabilities: Any) -> Self:
        """The handshake; `ready` confirms it."""
        answer = await self.site.post(initialize(self.revision, **capabilities))
        body = await answer.json()
        assert answer.status == 200 and "result" in body, body
        self.result = body["result"]
        self.id = answer.headers["mcp-session-id"]
        if ready:
            confirmed = await self.post(notification("notifications/initialized"))
            assert confirmed.status == 202, await confirmed.body()
        return self

    @property
    def headers(self) -> dict[str, str]:
        """What every request of the session carries; 2025-03-26 had no header for the revision."""
        found = {"Mcp-Session-Id": self.id}
        if self.revision != SESSIONS[0]:
            found["MCP-Protocol-Version"] = self.revision
        return found

    async def post(self, message: Any, **headers: Any) -> Answer:
        """POST a message of this session."""
        return await self.site.post(message, {**self.headers, **dict(_named(headers))})

    async def ask(self, method: str, **params: Any) -> Answer:
        """Send a request."""
        return await self.post(request(method, **params))

    async def call(self, tool: str, *, token: Any = None, **arguments: Any) -> Answer:
        """Call a tool; a token asks for progress."""
        meta = {} if token is None else {"_meta": {"progressToken": token}}
        return await self.ask("tools/call", name=tool, arguments=arguments, **meta)

    async def get(self, last: str | None = None, **headers: Any) -> Answer:
        """Open a stream, or come back to one."""
        given = {**self.headers, "Accept": EVENTS, **dict(_named(headers))}
        if last is not None:
            given["Last-Event-ID"] = last
        return await self.site.ask("GET", given)

    async def delete(self) -> Answer:
        """End it."""
        return await self.site.ask("DELETE", self.headers)


@contextlib.contextmanager
def serving_aside(make: Callable[[], Asgi]) -> Iterator[str]:
    """Serve an application on a loop of its own in a thread, for many tests that leave it as it was."""
    ready, done = threading.Event(), threading.Event()
    found: list[str] = []
    unseen: list[dict[str, Any]] = []

    async def run() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, problem: unseen.append(problem))
        app = make()
        async with serving(app) as url:
            found.append(url)
            ready.set()
            await asyncio.to_thread(done.wait)

    thread = threading.Thread(target=asyncio.run, args=(run(),))
    thread.start()
    try:
        assert ready.wait(30), "the server did not start"
        yield found[0]
    finally:
        done.set()
        thread.join()
    assert not unseen, f"asyncio reported: {unseen}"


def request(method: str, id: Any = None, **params: Any) -> dict[str, Any]:
    """A request; without an id it gets one that no other has."""
    return {"jsonrpc": "2.0", "id": next(_ids) if id is None else id, "method": method, "params": params}


def notification(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def initialize(revision: str, id: Any = None, **capabilities: Any) -> dict[str, Any]:
    """The first request of the handshake era."""
    info = {"name": "raw", "version": "1"}
    return request("initialize", id, protocolVersion=revision, capabilities=capabilities, clientInfo=info)


def modern_meta(version: Any = ENVELOPE, **capabilities: Any) -> dict[str, Any]:
    """The `_meta` that a request of the envelope era carries."""
    return {
        _PREFIX + "protocolVersion": version,
        _PREFIX + "clientInfo": {"name": "raw", "version": "1"},
        _PREFIX + "clientCapabilities": capabilities,
    }


def modern(method: str, id: Any = None, meta: dict[str, Any] | None = None, **params: Any) -> dict[str, Any]:
    """A request of the envelope era."""
    return request(method, id, **params, _meta={**modern_meta(), **(meta or {})})


def modern_headers(message: Mapping[str, Any]) -> dict[str, str]:
    """The headers that go with a request of the envelope era; names must be fit for a header."""
    found = {"MCP-Protocol-Version": ENVELOPE, "Mcp-Method": message["method"]}
    params = message.get("params", {})
    if message["method"] in ("tools/call", "prompts/get"):
        found["Mcp-Name"] = params["name"]
    elif message["method"] == "resources/read":
        found["Mcp-Name"] = params["uri"]
    return found


def text_of(answer: Mapping[str, Any]) -> str:
    """The text of a tool's result."""
    assert "result" in answer, answer
    return answer["result"]["content"][0]["text"]


def _pairs(headers: Any) -> list[tuple[str, Any]]:
    """Headers as they are given: by name, or one after the other where one comes twice."""
    return list(dict(headers).items()) if isinstance(headers, Mapping) else list(headers)


def _named(headers: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Keyword arguments as headers: underscores are dashes."""
    return [(name.replace("_", "-"), value) for name, value in headers.items()]


def _bytes(value: str | bytes | None) -> bytes:
    return value.encode("latin-1") if isinstance(value, str) else value or b""
