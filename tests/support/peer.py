"""A hand-written peer of a connection, and a service that the test scripts."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeAlias

from dovetail.protocol.errors import METHOD_NOT_FOUND, ProtocolError
from dovetail.protocol.revisions import NEWEST_HANDSHAKE
from dovetail.protocol.revisions.revision import Revision
from dovetail.protocol.terms import Terms
from dovetail.runtime.call import Call
from dovetail.runtime.connection import Connection
from dovetail.runtime.serve import Work
from dovetail.transports.base import MessageSink
from dovetail.transports.memory import MemoryChannel, memory_pair
from dovetail.types.capabilities import ClientCapabilities
from dovetail.wire import codec
from dovetail.wire.jsonrpc import Id, Notification, Request
from dovetail.wire.lines import TooLong

Handler: TypeAlias = "Callable[[Call], bytes | Work | None]"


class Peer:
    """Sends what it is told to and keeps what it gets, in order."""

    def __init__(self, channel: MemoryChannel) -> None:
        self.channel = channel
        self.reason: str | None = None
        self.ended = asyncio.Event()
        self._got: asyncio.Queue[Any] = asyncio.Queue()
        channel.open(self)

    def send(self, *messages: Any) -> None:
        """Send messages in one go: the other end gets them in the same turn of its loop."""
        for message in messages:
            self.channel.send(message if isinstance(message, bytes) else json.dumps(message).encode())

    def request(self, id: Any, method: str, **params: Any) -> None:
        self.send(request(id, method, **params))

    def cancel(self, id: Any) -> None:
        self.send(cancelled(id))

    async def next(self) -> Any:
        """The next message that has not been looked at."""
        return await self._got.get()

    async def answer(self) -> Any:
        """The result of the next message, which must be a response."""
        message = await self.next()
        assert "result" in message, message
        return message["result"]

    async def error(self) -> dict[str, Any]:
        """The error of the next message, which must be one."""
        message = await self.next()
        assert "error" in message, message
        return message["error"]

    async def silent(self) -> None:
        """Nothing was sent so far that has not been looked at: the next message answers what is asked now."""
        self.request("fence", "fence")
        assert await self.next() == {"jsonrpc": "2.0", "id": "fence", "result": {}}

    @property
    def unread(self) -> int:
        """How many messages have arrived and not been looked at."""
        return self._got.qsize()

    def received(self, line: bytes) -> None:
        self._got.put_nowait(json.loads(line))

    def overlong(self, line: TooLong) -> None:
        raise AssertionError("a memory channel has no longest line")

    def failed(self, id: Id, problem: Exception) -> None:
        raise AssertionError(f"a memory channel loses no single request: {id!r}, {problem}")

    def disconnected(self, reason: str | None) -> None:
        self.reason = reason
        self.ended.set()


class Script:
    """A service whose methods are the functions it was given; `fence` is always there."""

    def __init__(self, **handlers: Handler) -> None:
        self.handlers = handlers
        self.heard: list[Notification] = []
        self.endings: list[str | None] = []
        self.revision: Revision = NEWEST_HANDSHAKE
        self.null_id = False
        self.batching = False
        self.waits_for_reader = True
        self.answering = True

    def answers_invalid(self, id: Id | None) -> bool:
        return self.answering

    def admit(self, request: Request, sink: MessageSink, connection: Connection, terms: Terms | None) -> Call:
        return Call(request, Terms(self.revision, None, ClientCapabilities()), sink, connection)

    def dispatch(self, call: Call) -> bytes | Work | None:
        if call.request.method == "fence":
            return b"{}"
        handler = self.handlers.get(call.request.method)
        if handler is None:
            raise ProtocolError(METHOD_NOT_FOUND, f"Method not found: {call.request.method}")
        return handler(call)

    def notified(self, notification: Notification) -> None:
        self.heard.append(notification)

    def disconnected(self, reason: str | None) -> None:
        self.endings.append(reason)


def working(work: Callable[[Call], Awaitable[Any]]) -> Handler:
    """A handler that takes its time: an async function of the call, whose value is the result."""

    def handler(call: Call) -> Work:
        async def run() -> bytes:
            return codec.encode(await work(call))

        return run

    return handler


def request(id: Any, method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def notification(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def cancelled(id: Any) -> dict[str, Any]:
    return notification("notifications/cancelled", requestId=id)


@contextlib.asynccontextmanager
async def connected(service: Script) -> AsyncIterator[tuple[Connection, Peer]]:
    """A connection and the peer at its other end; at the end no task is left behind."""
    before = asyncio.all_tasks()
    theirs, ours = memory_pair()
    connection = Connection(ours, service, reader=ours)
    connection.open()
    try:
        yield connection, Peer(theirs)
    finally:
        await connection.close()
    await nothing_left(before)


async def nothing_left(before: set[asyncio.Task[Any]]) -> None:
    """Every task that was not there before ends by itself within a few turns of the loop."""
    for _ in range(20):
        if not asyncio.all_tasks() - before:
            return
        await asyncio.sleep(0)
    assert asyncio.all_tasks() - before == set()
