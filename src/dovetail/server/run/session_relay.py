"""Session relay: forwards a request that reaches the wrong worker to the one that holds its session.

A session's id begins with the index of the worker that created it. Workers listen for each other at Unix sockets in a
folder that only their user can enter. A connection there carries one request and its response, as frames: a length,
then a MessagePack array.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import struct
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import msgspec

from dovetail.protocol.errors import INTERNAL_ERROR
from dovetail.protocol.headers import SESSION_KEY
from dovetail.transports.http.server.asgi import Message, RawHeaders, Receive, Scope, Send
from dovetail.transports.http.server.response import JSON
from dovetail.wire import codec

App: TypeAlias = "Callable[[Scope, Receive, Send], Awaitable[None]]"

CHUNK = 65_536
"""The most that one frame carries of a body; larger parts are split."""

MAX_FRAME = 4 * CHUNK
MAX_RELAYED = 1000
"""Requests that are forwarded at the same time."""

RELAYED = "dovetail.relayed"
"""In the ASGI scope of a forwarded request, which is not forwarded again."""

_CLOSE_SECONDS = 1.0
_LENGTH = struct.Struct(">I")
_ID = re.compile(rb"w([0-9]{1,3})-")
_QUERY = re.compile(rb"(?:^|&)session_id=w([0-9]{1,3})-")
_EVENTS = (b"content-type", b"text/event-stream")


class RequestFrame(msgspec.Struct, array_like=True, tag=0):
    """A request's method, path and headers."""

    method: str
    path: str
    root_path: str
    query_string: bytes
    headers: list[tuple[bytes, bytes]]
    client: tuple[str, int] | None
    scheme: str
    http_version: str

    @staticmethod
    def of(scope: Scope) -> RequestFrame:
        """The frame for an ASGI scope."""
        client = scope.get("client")
        return RequestFrame(
            scope["method"],
            scope["path"],
            scope.get("root_path", ""),
            scope.get("query_string", b""),
            [(name, value) for name, value in scope["headers"]],
            None if client is None else (client[0], client[1]),
            scope.get("scheme", "http"),
            scope.get("http_version", "1.1"),
        )

    def scope(self) -> Scope:
        """The ASGI scope of the request."""
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            **{name: getattr(self, name) for name in self.__struct_fields__},
            RELAYED: True,
        }


class ResponseStartFrame(msgspec.Struct, array_like=True, tag=1):
    """A response's status and headers."""

    status: int
    headers: list[tuple[bytes, bytes]]


class BodyFrame(msgspec.Struct, array_like=True, tag=2):
    """A part of a body, of a request or a response."""

    body: bytes
    more: bool


Frame: TypeAlias = RequestFrame | ResponseStartFrame | BodyFrame

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(RequestFrame | ResponseStartFrame | BodyFrame).decode


class WorkerDisconnected(Exception):
    """The other worker has ended, or sent something invalid."""


class WorkerConnection:
    """A connection between two workers, which carries one request."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._reading = asyncio.Lock()
        """Held while reading: the task that watches for the client's disconnect may still read when `finish` begins."""

    async def read(self) -> Frame:
        """The next frame."""
        try:
            async with self._reading:
                (length,) = _LENGTH.unpack(await self._reader.readexactly(_LENGTH.size))
                if length > MAX_FRAME:
                    raise WorkerDisconnected
                return _decode(await self._reader.readexactly(length))
        except (OSError, EOFError, msgspec.DecodeError) as problem:
            raise WorkerDisconnected from problem

    async def write(self, frame: Frame) -> None:
        """Send a frame and wait until the peer accepts more; OSError if it has gone."""
        data = _encode(frame)
        self._writer.write(_LENGTH.pack(len(data)) + data)
        await self._writer.drain()

    async def write_body(self, body: bytes, more: bool) -> None:
        """Send a part of a body, split into frames."""
        start = 0
        while len(body) - start > CHUNK:
            await self.write(BodyFrame(body[start : start + CHUNK], True))
            start += CHUNK
        await self.write(BodyFrame(body[start:] if start else body, more))

    def abort(self) -> None:
        """Close the connection without waiting."""
        self._writer.transport.abort()

    async def finish(self) -> None:
        """Wait until the peer has read everything and closed: closing with unread data would reset the connection."""
        async with self._reading:
            with contextlib.suppress(OSError):
                while await self._reader.read(CHUNK):
                    pass


class SessionRelay:
    """One worker's connections to the others."""

    def __init__(self, folder: str, index: int, count: int) -> None:
        self._folder = folder
        self._index = index
        self._count = count
        self._listener: asyncio.Server | None = None
        self._forwarding = 0
        self._serving: set[asyncio.Task[None]] = set()
        self.prefix = f"w{index}-"
        """The prefix of the ids of this worker's sessions."""

    async def open(self, app: App) -> None:
        """Begin to serve the requests that other workers forward."""
        path = self._path(self._index)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)  # left behind by a worker that was killed

        async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._serving.add(task)
            try:
                await _serve(app, WorkerConnection(reader, writer))
            finally:
                self._serving.discard(task)

        self._listener = await asyncio.start_unix_server(accepted, path, backlog=MAX_RELAYED)

    async def close(self) -> None:
        """Accept nothing more; forwarded requests have been answered by now, and get a moment to send the response."""
        if self._listener is not None:
            self._listener.close()
        if self._serving:
            await asyncio.wait(self._serving, timeout=_CLOSE_SECONDS)
        for task in self._serving:
            task.cancel()
        if self._serving:
            await asyncio.wait(self._serving, timeout=_CLOSE_SECONDS)

    def shared_file(self, name: str) -> str:
        """The path of a file in the folder that all workers share, which is removed at the end."""
        return os.path.join(self._folder, name)

    async def forward(self, scope: Scope, receive: Receive, send: Send) -> bool:
        """Forward a request if another worker holds its session; return whether that was so."""
        owner = self._owner(scope)
        if owner is None:
            return False
        if self._forwarding >= MAX_RELAYED:
            await _refuse(send, "Too many requests are being forwarded to other workers; try again")
            return True
        self._forwarding += 1
        try:
            connection = WorkerConnection(*await asyncio.open_unix_connection(self._path(owner)))
        except OSError:
            await _refuse(send, "The worker that holds this session is not running; try again")
        else:
            await _RelayedRequest(connection, receive, send).run(RequestFrame.of(scope))
        finally:
            self._forwarding -= 1
        return True

    def _owner(self, scope: Scope) -> int | None:
        """The index of the worker that holds the request's session, if it is another one."""
        if RELAYED in scope:
            return None
        match = None
        for name, value in scope["headers"]:
            if name == SESSION_KEY:
                match = _ID.match(value)
                break
        else:
            query: bytes = scope.get("query_string", b"")
            if query:
                match = _QUERY.search(query)
        index = self._index if match is None else int(match.group(1))
        return index if index != self._index and index < self._count else None

    def _path(self, index: int) -> str:
        return os.path.join(self._folder, str(index))


class _RelayedRequest:
    """A request that is forwarded to another worker, and its response."""

    def __init__(self, connection: WorkerConnection, receive: Receive, send: Send) -> None:
        self._connection = connection
        self._receive = receive
        self._send = send
        self._disconnected = False

    async def run(self, head: RequestFrame) -> None:
        """Forward the request and send back the response, with backpressure; a client's disconnect ends both."""
        forwarding = asyncio.get_running_loop().create_task(self._forward(head))
        started = events = False
        try:
            while True:
                frame = await self._connection.read()
                if isinstance(frame, ResponseStartFrame):
                    started, events = True, _EVENTS in frame.headers
                    await self._send({"type": "http.response.start", "status": frame.status, "headers": frame.headers})
                elif isinstance(frame, BodyFrame):
                    await self._send({"type": "http.response.body", "body": frame.body, "more_body": frame.more})
                    if not frame.more:
                        return
        except WorkerDisconnected:
            if not self._disconnected:
                await self._fail(started, events)
        finally:
            forwarding.cancel()
            await asyncio.wait({forwarding})
            self._connection.abort()

    async def _forward(self, head: RequestFrame) -> None:
        try:
            await self._connection.write(head)
            while (message := await self._receive())["type"] == "http.request":
                await self._connection.write_body(message.get("body", b""), message.get("more_body", False))
        except OSError:
            return  # the read in `run` fails too, and reports it
        self._disconnected = True
        self._connection.abort()

    async def _fail(self, started: bool, events: bool) -> None:
        """The other worker has died: end an event stream, which clients resume, but leave a body incomplete."""
        if not started:
            await _refuse(self._send, "The worker that holds this session has ended; try again")
        elif events:
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})


async def _serve(app: App, connection: WorkerConnection) -> None:
    """Serve a request that another worker forwarded."""
    answered = False

    async def receive() -> Message:
        try:
            frame = await connection.read()
        except WorkerDisconnected:
            return {"type": "http.disconnect"}
        assert isinstance(frame, BodyFrame)
        return {"type": "http.request", "body": frame.body, "more_body": frame.more}

    async def send(message: Message) -> None:
        nonlocal answered
        if message["type"] == "http.response.start":
            await connection.write(ResponseStartFrame(message["status"], message["headers"]))
        else:
            more = message.get("more_body", False)
            await connection.write_body(message.get("body", b""), more)
            answered = not more

    try:
        head = await connection.read()
        if isinstance(head, RequestFrame):
            await app(head.scope(), receive, send)
    except WorkerDisconnected:
        pass
    finally:
        if answered:
            await connection.finish()
        connection.abort()


async def _refuse(send: Send, reason: str) -> None:
    body = codec.failure(None, INTERNAL_ERROR, reason, null_id=True)
    headers: RawHeaders = [JSON, (b"content-length", b"%d" % len(body)), (b"retry-after", b"1")]
    await send({"type": "http.response.start", "status": 503, "headers": headers})
    await send({"type": "http.response.body", "body": body})
