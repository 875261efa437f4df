"""HTTP+SSE of 2024-11-05: one event stream for everything the server sends, and an endpoint to POST to.

WebSockets, which are one connection for one client too, are served here as well.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from dovetail.protocol.errors import INTERNAL_ERROR, INVALID_REQUEST
from dovetail.protocol.request_guard import Refusal
from dovetail.server.auth.token_expiry import TOKEN_EXPIRED, UNAUTHORIZED, TokenExpiry
from dovetail.server.connection import ConnectionRunner
from dovetail.transports.base import Channel, Receiver
from dovetail.transports.http.server.event_stream import EventStream
from dovetail.transports.websocket import FrameChannel
from dovetail.wire import sse

if TYPE_CHECKING:
    from dovetail.server.auth.authenticator import AuthenticatedCaller
    from dovetail.server.core import ServerCore

    from .request import HttpRequest

MAX_CONNECTIONS = 1000

GRACE_SECONDS = 5.0
"""Seconds that the calls of a client may continue after it has closed its side."""

_GONE = "the client closed its stream"


class LegacyChannel:
    """One client: its event stream, and the messages that it posts."""

    def __init__(self, stream: EventStream, principal: str | None) -> None:
        self.stream = stream
        self.principal = principal
        self.receiver: Receiver | None = None
        self.runner: ConnectionRunner | None = None
        self.expiry: TokenExpiry | None = None
        self._running = asyncio.Event()
        self._running.set()

    @property
    def congested(self) -> bool:
        """True if the client reads more slowly than we write."""
        return self.stream.congested

    def send(self, line: bytes) -> None:
        """Send a message as an event."""
        self.stream.send(line)

    def flush(self) -> None:
        """Nothing to do: events are written as they come."""

    async def drained(self) -> None:
        """Wait until the client has caught up."""
        await self.stream.drained()

    def open(self, receiver: Receiver) -> None:
        """Receive what is posted from now on."""
        self.receiver = receiver

    async def posted(self, body: bytes, caller: AuthenticatedCaller | None) -> bool:
        """Pass on what was posted, with the scopes of its token, once the connection reads; False if it is closed."""
        await self._running.wait()
        if self.receiver is None or self.runner is None:
            return False
        self.runner.allow(None if caller is None else caller.scopes)
        if self.expiry is not None:
            self.expiry.extend(caller)
        self.receiver.received(body)
        return True

    def pause(self) -> None:
        """Let POST requests wait."""
        self._running.clear()

    def resume(self) -> None:
        """Accept POST requests again."""
        self._running.set()

    async def close(self) -> None:
        """End the stream."""
        self.receiver = None
        self._running.set()
        self.stream.finish(None)


class LegacySse:
    """The clients that have a connection of their own: HTTP+SSE and WebSockets."""

    def __init__(self, core: ServerCore, prefix: str = "") -> None:
        self._core = core
        self._prefix = prefix
        self._channels: dict[str, LegacyChannel] = {}
        self._runners: dict[ConnectionRunner, asyncio.Task[None]] = {}

    @property
    def full(self) -> bool:
        """True if the limit of connections is reached."""
        return len(self._runners) >= MAX_CONNECTIONS

    async def open(self, request: HttpRequest) -> None:
        """Open a stream, name the endpoint for POSTs, and serve the client until it disconnects."""
        if self.full:
            await request.refuse(Refusal(503, INTERNAL_ERROR, "There are too many connections; try again later"))
            return
        id = self._prefix + os.urandom(16).hex()
        stream = EventStream()
        channel = self._channels[id] = LegacyChannel(stream, request.principal)
        runner = asyncio.create_task(self.serve(channel, request.caller))
        watching = request.watch(channel.stream.wake)
        endpoint = sse.encode_event(f"{request.root_path}/messages?session_id={id}".encode(), name="endpoint")
        try:
            await stream.write_to(request.response, first=endpoint)
        finally:
            del self._channels[id]
            watching.cancel()
            if channel.receiver is not None:
                channel.receiver.disconnected(_GONE)
            await asyncio.shield(asyncio.wait({runner}))

    async def message(self, request: HttpRequest, body: bytes) -> None:
        """Pass a message on to its connection."""
        id = parse_qs(request.query.decode("latin-1")).get("session_id", [""])[0]
        channel = self._channels.get(id)
        if channel is None or channel.principal != request.principal or not await channel.posted(body, request.caller):
            await request.refuse(Refusal(404, INVALID_REQUEST, "There is no such session; open a stream at /sse first"))
            return
        await request.response.text(202, "Accepted")

    async def serve(self, channel: Channel, caller: AuthenticatedCaller | None) -> None:
        """Serve one client over its channel, with the scopes of its token and until the token expires."""
        principal, scopes = (None, None) if caller is None else (caller.name, caller.scopes)
        runner = ConnectionRunner(self._core, channel, GRACE_SECONDS, principal)
        runner.allow(scopes)
        expiry = TokenExpiry(caller, lambda: _expire(runner, channel))
        if isinstance(channel, LegacyChannel):
            channel.runner, channel.expiry = runner, expiry
        task = asyncio.current_task()
        assert task is not None
        self._runners[runner] = task
        try:
            with expiry:
                await runner.run()
        finally:
            del self._runners[runner]

    def stop(self, grace: float) -> None:
        """Accept nothing new; calls have the grace period to end."""
        for runner in list(self._runners):
            runner.grace = grace
            runner.stop()

    async def close(self, grace: float) -> None:
        """Wait until all clients are served, within the grace period."""
        self.stop(grace)
        if self._runners:
            await asyncio.wait(set(self._runners.values()), timeout=grace + 1)


def _expire(runner: ConnectionRunner, channel: Channel) -> None:
    """Accept nothing new from a client whose token has expired; calls that run have the grace period."""
    if isinstance(channel, FrameChannel):
        channel.set_close_reason(UNAUTHORIZED, TOKEN_EXPIRED)
    runner.stop()
