"""Requests that reach the wrong worker, passed on to the one where their session lives.

A session's id begins with the worker that made it. Workers listen for each other at Unix sockets in a folder
that only their user can enter; a connection there carries one request, as frames of a length and a message.
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
"""What one frame carries of a body; larger ones are cut."""

MAX_FRAME = 4 * CHUNK
MAX_RELAYED = 1000
"""Requests on their way to other workers at once; their clients' connections are as many."""

RELAYED = "dovetail.relayed"
"""In the scope of a request that has been passed on once; it is not passed on again."""

_FAREWELL_SECONDS = 1.0
_LENGTH = struct.Struct(">I")
_ID = re.compile(rb"w([0-9]{1,3})-")
_QUERY = re.compile(rb"(?:^|&)session_id=w([0-9]{1,3})-")
_EVENTS = (b"content-type", b"text/event-stream")


class Head(msgspec.Struct, array_like=True, tag=0):
    """A request without its body."""

    method: str
    path: str
    root_path: str
    query_string: bytes
    headers: list[tuple[bytes, bytes]]
    client: tuple[str, int] | None
    scheme: str
    http_version: str

    @staticmethod
    def of(scope: Scope) -> Head:
        """What the other worker needs to know."""
        client = scope.get("client")
        return Head(
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
        """The request as an application takes it."""
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            **{name: getattr(self, name) for name in self.__struct_fields__},
            RELAYED: True,
        }


class Start(msgspec.Struct, array_like=True, tag=1):
    """The beginning of an answer."""

    status: int
    headers: list[tuple[bytes, bytes]]


class Body(msgspec.Struct, array_like=True, tag=2):
    """A part of a body, in either direction."""

    body: bytes
    more: bool


Frame: TypeAlias = Head | Start | Body

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Head | Start | Body).decode


class Broken(Exception):
    """The other worker is gone, or says what it should not."""


class Link:
    """One connection between two workers."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._reading = asyncio.Lock()
        """The watcher of a client may still read when its request is over."""

    async def read(self) -> Frame:
        """The next frame."""
        try:
            async with self._reading:
                (length,) = _LENGTH.unpack(await self._reader.readexactly(_LENGTH.size))
                if length > MAX_FRAME:
                    raise Broken
                return _decode(await self._reader.readexactly(length))
        except (OSError, EOFError, msgspec.DecodeError) as problem:
            raise Broken from problem

    async def write(self, frame: Frame) -> None:
        """Send a frame and wait until the other side takes more; OSError if there is nobody."""
        data = _encode(frame)
        self._writer.write(_LENGTH.pack(len(data)) + data)
        await self._writer.drain()

    async def write_body(self, body: bytes, more: bool) -> None:
        """Send a part of a body, cut into frames."""
        start = 0
        while len(body) - start > CHUNK:
            await self.write(Body(body[start : start + CHUNK], True))
            start += CHUNK
        await self.write(Body(body[start:] if start else body, more))

    def drop(self) -> None:
        """End it at once."""
        self._writer.transport.abort()

    async def finish(self) -> None:
        """Wait until the other side has read everything and closed: to close what has unread data resets it."""
        async with self._reading:
            with contextlib.suppress(OSError):
                while await self._reader.read(CHUNK):
                    pass


class Relay:
    """What one worker knows of the others."""

    def __init__(self, folder: str, index: int, count: int) -> None:
        self._folder = folder
        self._index = index
        self._count = count
        self._listener: asyncio.Server | None = None
        self._relayed = 0
        self._serving: set[asyncio.Task[None]] = set()
        self.prefix = f"w{index}-"
        """What the ids of this worker's sessions begin with."""

    async def open(self, app: App) -> None:
        """Take what other workers pass on."""
        path = self._path(self._index)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)  # left behind by a worker that was killed

        async def taken(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._serving.add(task)
            try:
                await _serve(app, Link(reader, writer))
            finally:
                self._serving.discard(task)

        self._listener = await asyncio.start_unix_server(taken, path, backlog=MAX_RELAYED)

    async def close(self) -> None:
        """Take nothing any more; what was taken has its answer by now, and a moment to pass it on."""
        if self._listener is not None:
            self._listener.close()
        if self._serving:
            await asyncio.wait(self._serving, timeout=_FAREWELL_SECONDS)
        for task in self._serving:
            task.cancel()
        if self._serving:
            await asyncio.wait(self._serving, timeout=_FAREWELL_SECONDS)

    def beside(self, name: str) -> str:
        """The path of a file that all workers share, in the folder that is removed at the end."""
        return os.path.join(self._folder, name)

    async def forward(self, scope: Scope, receive: Receive, send: Send) -> bool:
        """Pass a request on, if its session lives elsewhere; whether it does."""
        owner = self._owner(scope)
        if owner is None:
            return False
        if self._relayed >= MAX_RELAYED:
            await _refuse(send, "Too many requests are on their way to another worker")
            return True
        self._relayed += 1
        try:
            link = Link(*await asyncio.open_unix_connection(self._path(owner)))
        except OSError:
            await _refuse(send, "The worker of this session is not there; try again")
        else:
            await _Passage(link, receive, send).run(Head.of(scope))
        finally:
            self._relayed -= 1
        return True

    def _owner(self, scope: Scope) -> int | None:
        """The worker of the session that a request names, if that is another one."""
        if RELAYED in scope:
            return None
        found = None
        for name, value in scope["headers"]:
            if name == SESSION_KEY:
                found = _ID.match(value)
                break
        else:
            query: bytes = scope.get("query_string", b"")
            if query:
                found = _QUERY.search(query)
        index = self._index if found is None else int(found.group(1))
        return index if index != self._index and index < self._count else None

    def _path(self, index: int) -> str:
        return os.path.join(self._folder, str(index))


class _Passage:
    """One request on its way to another worker, and the answer on its way back."""

    def __init__(self, link: Link, receive: Receive, send: Send) -> None:
        self._link = link
        self._receive = receive
        self._send = send
        self._gone = False

    async def run(self, head: Head) -> None:
        """Pass on both, each no faster than it is read; a client that goes takes its request with it."""
        asking = asyncio.get_running_loop().create_task(self._ask(head))
        started = events = False
        try:
            while True:
                frame = await self._link.read()
                if isinstance(frame, Start):
                    started, events = True, _EVENTS in frame.headers
                    await self._send({"type": "http.response.start", "status": frame.status, "headers": frame.headers})
                elif isinstance(frame, Body):
                    await self._send({"type": "http.response.body", "body": frame.body, "more_body": frame.more})
                    if not frame.more:
                        return
        except Broken:
            if not self._gone:
                await self._broken(started, events)
        finally:
            asking.cancel()
            await asyncio.wait({asking})
            self._link.drop()

    async def _ask(self, head: Head) -> None:
        try:
            await self._link.write(head)
            while (message := await self._receive())["type"] == "http.request":
                await self._link.write_body(message.get("body", b""), message.get("more_body", False))
        except OSError:
            return  # who reads finds out
        self._gone = True
        self._link.drop()

    async def _broken(self, started: bool, events: bool) -> None:
        """The other worker has died: a stream ends, so that its client comes back; a body stays cut short."""
        if not started:
            await _refuse(self._send, "The worker of this session has ended; try again")
        elif events:
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})


async def _serve(app: App, link: Link) -> None:
    """Serve a request that another worker passed on."""
    answered = False

    async def receive() -> Message:
        try:
            frame = await link.read()
        except Broken:
            return {"type": "http.disconnect"}
        assert isinstance(frame, Body)
        return {"type": "http.request", "body": frame.body, "more_body": frame.more}

    async def send(message: Message) -> None:
        nonlocal answered
        if message["type"] == "http.response.start":
            await link.write(Start(message["status"], message["headers"]))
        else:
            more = message.get("more_body", False)
            await link.write_body(message.get("body", b""), more)
            answered = not more

    try:
        head = await link.read()
        if isinstance(head, Head):
            await app(head.scope(), receive, send)
    except Broken:
        pass
    finally:
        if answered:
            await link.finish()
        link.drop()


async def _refuse(send: Send, reason: str) -> None:
    body = codec.failure(None, INTERNAL_ERROR, reason, null_id=True)
    headers: RawHeaders = [JSON, (b"content-length", b"%d" % len(body)), (b"retry-after", b"1")]
    await send({"type": "http.response.start", "status": 503, "headers": headers})
    await send({"type": "http.response.body", "body": body})
