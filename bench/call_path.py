"""Counts what one warm `tools/call` passes through in the server, for each transport and era.

    python -m bench.call_path

The server runs in this process. Its client is written by hand here: over HTTP and WebSocket it calls the ASGI
application directly, so that no frame belongs to uvicorn; over stdio and Unix sockets it uses asyncio's own streams. A
few calls warm up what is built once. Then a call is counted, from before its request is sent until its response has
arrived and the loop has nothing left to do for it.

frames  Python frames of Dovetail entered: the `call` events of sys.setprofile for code under src/dovetail. A coroutine
        or generator counts once, when it is first entered, however often it is resumed; one that was begun before
        the request (a reader, say) does not count. Comprehensions and lambdas with frames of their own count as well.
files   source files that these frames belong to.
nested  frames of Dovetail on the stack of the handler's task, from the handler outwards to the event loop.
tasks   asyncio tasks created.
queues  queues (asyncio.Queue, queue.Queue) that something was put into.

In memory, the client's end of the channel is Dovetail's as well and is counted with the rest.
"""

import asyncio
import contextlib
import json
import os
import queue
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, MutableMapping
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import dovetail
from dovetail import Context, Server
from dovetail.server import listen_unix
from dovetail.transports.memory import memory_pair
from dovetail.transports.stdio import StdioChannel

SOURCE = str(Path(dovetail.__file__).parent) + os.sep
WARM_UP = 3
REPEATS = 5
"""Calls counted; while one of them is under way, a timer that has nothing to do with it may fire."""

PATIENCE = 30.0
IDLE_TURNS = 10
"""Turns of the event loop after the response, for callbacks of tasks that have ended."""

PREFIX = "io.modelcontextprotocol/"
ENVELOPE = "2026-07-28"

Call = Callable[[], Awaitable[dict[str, Any]]]
"""Sends the request once and returns the response."""

Connect = Callable[[Server], contextlib.AbstractAsyncContextManager[Call]]
"""Connects a client to a server."""


class CallPath(NamedTuple):
    """The counts of one call."""

    frames: int
    files: int
    nested: int
    tasks: int
    queues: int


async def measure_all() -> dict[str, CallPath]:
    """Measure every transport and era, by title."""
    return {title: await measure(connect) for title, connect in CASES.items()}


async def measure(connect: Connect) -> CallPath:
    """Warm up a connection, then count one call on it: that with the fewest frames of a few."""
    paths: list[CallPath] = []
    counter = Counter()
    async with asyncio.timeout(PATIENCE), connect(make_server(counter)) as call:
        for _ in range(WARM_UP):
            await checked(call)
        for _ in range(REPEATS):
            await settled()
            counter.clear()
            with counter.counting():
                await checked(call)
                await settled()
            paths.append(counter.result())
    return min(paths)


async def checked(call: Call) -> None:
    """Make the call and check that it did what it is measured for."""
    response = await call()
    assert response["result"]["content"] == [{"type": "text", "text": "3"}], response


async def settled() -> None:
    """Let the loop run what is due now."""
    for _ in range(IDLE_TURNS):
        await asyncio.sleep(0)


class Counter:
    """Counts frames, tasks and queues between two points of one run of the event loop."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Begin again."""
        self.nested = 0
        self._frames: dict[int, FrameType] = {}
        self._queues: set[int] = set()
        self._tasks = 0

    @contextlib.contextmanager
    def counting(self) -> Iterator[None]:
        """Count what happens in this thread meanwhile."""
        loop = asyncio.get_running_loop()
        begun = {id(frame): frame for frame in suspended_frames()}

        def create_task(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
            self._tasks += 1
            return asyncio.Task(coroutine, loop=loop, **options)

        def profile(frame: FrameType, event: str, _: object) -> None:
            if event != "call":
                return
            if frame.f_code.co_filename.startswith(SOURCE):
                if id(frame) not in begun:
                    self._frames[id(frame)] = frame  # kept, so that no other frame gets its id
            elif frame.f_code in QUEUE_PUTS:
                self._queues.add(id(frame.f_locals["self"]))

        loop.set_task_factory(create_task)
        sys.setprofile(profile)
        try:
            yield
        finally:
            sys.setprofile(None)
            loop.set_task_factory(None)

    def result(self) -> CallPath:
        """The counts."""
        files = {frame.f_code.co_filename for frame in self._frames.values()}
        return CallPath(len(self._frames), len(files), self.nested, self._tasks, len(self._queues))


QUEUE_PUTS: tuple[CodeType, ...] = (asyncio.Queue.put_nowait.__code__, queue.Queue.put.__code__)


def suspended_frames() -> Iterator[FrameType]:
    """The frames of all coroutines and generators that tasks of the running loop are suspended in."""
    for task in asyncio.all_tasks():
        awaited: Any = task.get_coro()
        while awaited is not None:
            for kind in ("cr", "ag", "gi"):
                if (frame := getattr(awaited, f"{kind}_frame", None)) is not None:
                    yield frame
            awaited = next(
                (
                    getattr(awaited, name)
                    for name in ("cr_await", "ag_await", "gi_yieldfrom")
                    if getattr(awaited, name, None) is not None
                ),
                None,
            )


def make_server(counter: Counter) -> Server:
    """A server whose two tools note how deep they are nested."""
    server = Server("call-path")

    @server.tool
    async def add(a: int, b: int) -> int:
        counter.nested = nested_frames()
        return a + b

    @server.tool
    async def add_with_context(a: int, b: int, ctx: Context) -> int:
        counter.nested = nested_frames()
        return a + b

    return server


def nested_frames() -> int:
    """Count the frames of Dovetail below the caller's on the stack of the current task."""
    nested, frame = 0, sys._getframe(1)
    while frame is not None and frame.f_code is not asyncio.Handle._run.__code__:
        nested += frame.f_code.co_filename.startswith(SOURCE)
        frame = frame.f_back
    return nested


def message(method: str, revision: str, id: int | None = None, **params: Any) -> bytes:
    """A request or notification as a client of this revision writes it."""
    if revision == ENVELOPE:
        params["_meta"] = {
            PREFIX + "protocolVersion": revision,
            PREFIX + "clientInfo": {"name": "raw", "version": "1"},
            PREFIX + "clientCapabilities": {},
        }
    whole: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
    if params:
        whole["params"] = params
    if id is not None:
        whole["id"] = id
    return json.dumps(whole).encode()


def initialize(revision: str) -> bytes:
    """The first request of the handshake era."""
    client = {"name": "raw", "version": "1"}
    return message("initialize", revision, 0, protocolVersion=revision, capabilities={}, clientInfo=client)


def tool_call(revision: str, id: int, tool: str = "add") -> bytes:
    """The request that is measured."""
    return message("tools/call", revision, id, name=tool, arguments={"a": 1, "b": 2})


class LineClient:
    """A client on a transport that carries whole messages both ways."""

    def __init__(self, revision: str, send: Callable[[bytes], None], receive: Callable[[], Awaitable[bytes]]) -> None:
        self._revision = revision
        self._send = send
        self._receive = receive
        self._last_id = 0

    async def open(self) -> None:
        """Shake hands, where the revision has a handshake."""
        if self._revision != ENVELOPE:
            self._send(initialize(self._revision))
            assert "result" in json.loads(await self._receive())
            self._send(message("notifications/initialized", self._revision))

    async def call(self) -> dict[str, Any]:
        """Call the tool once."""
        self._last_id += 1
        self._send(tool_call(self._revision, self._last_id))
        response = json.loads(await self._receive())
        assert response["id"] == self._last_id, response
        return response


@contextlib.asynccontextmanager
async def running(work: Any) -> AsyncIterator[None]:
    """Run the server's side in a task that ends, or is ended, afterwards."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def over_stdio(revision: str) -> Connect:
    """Over pipes at descriptors 0 and 1 of this process."""

    @contextlib.asynccontextmanager
    async def connect(server: Server) -> AsyncIterator[Call]:
        loop, reader = asyncio.get_running_loop(), asyncio.StreamReader()
        stdin, to_server = os.pipe()
        from_server, stdout = os.pipe()
        transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(from_server, "rb", buffering=0)
        )
        try:
            with replaced_standard_streams(stdin, stdout), os.fdopen(to_server, "wb", buffering=0) as sink:
                async with running(server.serve(StdioChannel())):
                    client = LineClient(revision, lambda line: void(sink.write(line + b"\n")), reader.readline)
                    await client.open()
                    yield client.call
        finally:
            transport.close()

    return connect


def void(_: object) -> None:
    """Drop a result."""


@contextlib.contextmanager
def replaced_standard_streams(stdin: int, stdout: int) -> Iterator[None]:
    """Move other descriptors to 0 and 1, and put the real ones back afterwards."""
    kept = [os.dup(0), os.dup(1)]
    for standard, descriptor in enumerate((stdin, stdout)):
        os.dup2(descriptor, standard)
        os.close(descriptor)
    try:
        yield
    finally:
        for standard, descriptor in enumerate(kept):
            os.dup2(descriptor, standard)
            os.close(descriptor)


class MemoryReceiver:
    """The client's end of a channel in memory: hands each message to the reader that waits for it."""

    def __init__(self) -> None:
        self._awaited: asyncio.Future[bytes] | None = None

    def received(self, line: bytes) -> None:
        assert self._awaited is not None
        self._awaited.set_result(line)

    def overlong(self, line: object) -> None: ...

    def failed(self, id: object, problem: Exception) -> None: ...

    def disconnected(self, reason: str | None) -> None: ...

    def receive(self) -> asyncio.Future[bytes]:
        """The next message."""
        self._awaited = asyncio.get_running_loop().create_future()
        return self._awaited


def in_memory(revision: str) -> Connect:
    """Over a pair of channels in memory."""

    @contextlib.asynccontextmanager
    async def connect(server: Server) -> AsyncIterator[Call]:
        near, far = memory_pair()
        receiver = MemoryReceiver()
        near.open(receiver)
        async with running(server.serve(far)):
            client = LineClient(revision, near.send, receiver.receive)
            await client.open()
            yield client.call
            await near.close()

    return connect


def over_unix_socket(revision: str) -> Connect:
    """Over a Unix socket."""

    @contextlib.asynccontextmanager
    async def connect(server: Server) -> AsyncIterator[Call]:
        with tempfile.TemporaryDirectory() as folder:
            path, started = f"{folder}/socket", asyncio.Event()
            async with running(listen_unix(server, path, started=lambda _: started.set())):
                await started.wait()
                reader, writer = await asyncio.open_unix_connection(path)
                client = LineClient(revision, lambda line: writer.write(line + b"\n"), reader.readline)
                await client.open()
                yield client.call
                writer.close()
                await writer.wait_closed()

    return connect


HEADERS = {"host": "localhost", "content-type": "application/json", "accept": "application/json, text/event-stream"}


def scope_of(kind: str, path: str, headers: dict[str, str]) -> dict[str, Any]:
    """An ASGI scope."""
    return {
        "type": kind,
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http" if kind == "http" else "ws",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 50000),
        "server": ("127.0.0.1", 8000),
        "subprotocols": ["mcp"],
        "state": {},
        "extensions": {},
    }


async def post(app: Any, body: bytes, headers: dict[str, str]) -> tuple[dict[str, str], bytes]:
    """One HTTP request to an ASGI application, in the caller's task; the headers and the body of the response."""
    ended = asyncio.get_running_loop().create_future()
    unread = [{"type": "http.request", "body": body, "more_body": False}]
    heads: dict[str, str] = {}
    parts: list[bytes] = []

    async def receive() -> dict[str, Any]:
        if unread:
            return unread.pop()
        await asyncio.shield(ended)
        return {"type": "http.disconnect"}

    async def send(event: dict[str, Any]) -> None:
        if event["type"] == "http.response.start":
            heads.update((name.decode(), value.decode()) for name, value in event["headers"])
            return
        parts.append(event.get("body", b""))
        if not event.get("more_body"):
            ended.set_result(None)

    await app(scope_of("http", "/mcp", {**headers, "content-length": str(len(body))}), receive, send)
    return heads, b"".join(parts)


def over_http(revision: str, tool: str = "add") -> Connect:
    """As requests to the ASGI application, in a session where the revision has them."""

    @contextlib.asynccontextmanager
    async def connect(server: Server) -> AsyncIterator[Call]:
        app = server.asgi()
        headers = {**HEADERS, "mcp-protocol-version": revision}
        if revision == ENVELOPE:
            headers |= {"mcp-method": "tools/call", "mcp-name": tool}
        last_id = 0

        async def call() -> dict[str, Any]:
            nonlocal last_id
            last_id += 1
            _, body = await post(app, tool_call(revision, last_id, tool), headers)
            return json.loads(body)

        async with asgi_lifespan(app):
            if revision != ENVELOPE:
                answered, _ = await post(app, initialize(revision), HEADERS)
                headers["mcp-session-id"] = answered["mcp-session-id"]
                await post(app, message("notifications/initialized", revision), headers)
            yield call

    return connect


@contextlib.asynccontextmanager
async def asgi_lifespan(app: Any) -> AsyncIterator[None]:
    """Start an ASGI application, and shut it down afterwards."""
    started, ending = asyncio.Event(), asyncio.Event()
    stages = [{"type": "lifespan.startup"}]

    async def receive() -> dict[str, Any]:
        if stages:
            return stages.pop()
        await ending.wait()
        return {"type": "lifespan.shutdown"}

    async def send(event: dict[str, Any]) -> None:
        assert event["type"].endswith("complete"), event
        started.set()

    task = asyncio.create_task(app({"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}, receive, send))
    await started.wait()
    try:
        yield
    finally:
        ending.set()
        await task


class WebSocketEvents:
    """A WebSocket at an ASGI application: events in both directions, one at a time."""

    def __init__(self) -> None:
        self._sent: list[dict[str, Any]] = [{"type": "websocket.connect"}]
        self._received: list[dict[str, Any]] = []
        self._changed = asyncio.Event()

    def send(self, line: bytes) -> None:
        """Send a message to the application."""
        self._put(self._sent, {"type": "websocket.receive", "text": line.decode()})

    def close(self) -> None:
        """Tell the application that the client has gone."""
        self._put(self._sent, {"type": "websocket.disconnect", "code": 1000})

    async def next_event(self) -> dict[str, Any]:
        """What the application sent."""
        return await self._get(self._received)

    async def receive(self) -> bytes:
        """The next message from the application."""
        return (await self.next_event())["text"].encode()

    async def asgi_receive(self) -> dict[str, Any]:
        """For the application: what the client sent."""
        return await self._get(self._sent)

    async def asgi_send(self, event: MutableMapping[str, Any]) -> None:
        """For the application: send to the client."""
        self._put(self._received, dict(event))

    def _put(self, events: list[dict[str, Any]], event: dict[str, Any]) -> None:
        events.append(event)
        self._changed.set()

    async def _get(self, events: list[dict[str, Any]]) -> dict[str, Any]:
        while not events:
            self._changed.clear()
            await self._changed.wait()
        return events.pop(0)


def over_websocket(revision: str) -> Connect:
    """As a WebSocket at the ASGI application."""

    @contextlib.asynccontextmanager
    async def connect(server: Server) -> AsyncIterator[Call]:
        app, events = server.asgi(websocket=True), WebSocketEvents()
        async with asgi_lifespan(app):
            scope = scope_of("websocket", "/mcp/ws", {"host": "localhost", "sec-websocket-protocol": "mcp"})
            async with running(app(scope, events.asgi_receive, events.asgi_send)):
                assert (await events.next_event())["type"] == "websocket.accept"
                client = LineClient(revision, events.send, events.receive)
                await client.open()
                yield client.call
                events.close()

    return connect


CASES: dict[str, Connect] = {
    "stdio, 2025-06-18": over_stdio("2025-06-18"),
    "stdio, 2026-07-28": over_stdio(ENVELOPE),
    "HTTP with a session, 2025-11-25": over_http("2025-11-25"),
    "HTTP, 2026-07-28": over_http(ENVELOPE),
    "HTTP, 2026-07-28, handler takes Context": over_http(ENVELOPE, "add_with_context"),
    "WebSocket, 2025-11-25": over_websocket("2025-11-25"),
    "WebSocket, 2026-07-28": over_websocket(ENVELOPE),
    "Unix socket, 2025-11-25": over_unix_socket("2025-11-25"),
    "Unix socket, 2026-07-28": over_unix_socket(ENVELOPE),
    "memory, 2025-11-25": in_memory("2025-11-25"),
    "memory, 2026-07-28": in_memory(ENVELOPE),
}


def table(paths: dict[str, CallPath]) -> str:
    """The counts as a table in Markdown."""
    rows = [("one warm tools/call", *CallPath._fields), *((title, *path) for title, path in paths.items())]
    width = max(len(title) for title in paths)
    lines = [f"| {title:<{width}} | " + " | ".join(f"{each:>6}" for each in rest) + " |" for title, *rest in rows]
    return "\n".join([lines[0], f"|{'-' * (width + 2)}|" + "-------:|" * len(CallPath._fields), *lines[1:]])


def main() -> int:
    """Measure and print."""
    print(table(asyncio.run(measure_all())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
