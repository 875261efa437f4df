"""HTTP+SSE of 2024-11-05: one stream for everything the server says, and an endpoint to POST to.

Whatever else is one connection for one client, as a WebSocket is, is served here too.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from dovetail.protocol.errors import INTERNAL_ERROR, INVALID_REQUEST
from dovetail.protocol.request_guard import Refusal
from dovetail.server.auth.token_expiry import TOKEN_EXPIRED, UNAUTHORIZED, TokenExpiry
from dovetail.server.run.stdio import ConnectionRunner
from dovetail.transports.base import Channel, Receiver
from dovetail.transports.http.server.asgi import until_gone
from dovetail.transports.http.server.event_stream import Stream
from dovetail.transports.websocket import FrameChannel
from dovetail.wire import sse

from .stateless import OneWay

if TYPE_CHECKING:
    from dovetail.server.app import Server
    from dovetail.server.auth.authenticator import AuthenticatedCaller

    from .asgi_app import Arrival

MAX_CONNECTIONS = 1000

GRACE_SECONDS = 5.0
"""How long the calls of a client that has ended its side may go on."""

_GONE = "the client closed its stream"


class LegacyChannel(OneWay):
    """One client: its stream, and what it posts."""

    def __init__(self, stream: Stream, principal: str | None) -> None:
        super().__init__(stream)
        self.stream = stream
        self.principal = principal
        self.receiver: Receiver | None = None
        self.serving: ConnectionRunner | None = None
        self.lifetime: TokenExpiry | None = None
        self._running = asyncio.Event()
        self._running.set()

    def open(self, receiver: Receiver) -> None:
        """Take what is posted from now on."""
        self.receiver = receiver

    async def posted(self, body: bytes, visitor: AuthenticatedCaller | None) -> bool:
        """Hand over what was posted, with what its token allows, once the runtime reads; whether somebody took it."""
        await self._running.wait()
        if self.receiver is None or self.serving is None:
            return False
        self.serving.allow(None if visitor is None else visitor.scopes)
        if self.lifetime is not None:
            self.lifetime.extend(visitor)
        self.receiver.received(body)
        return True

    def pause(self) -> None:
        """Keep those who post waiting."""
        self._running.clear()

    def resume(self) -> None:
        """Take what is posted again."""
        self._running.set()

    async def close(self) -> None:
        """End the stream."""
        self.receiver = None
        self._running.set()
        self.stream.finish(None)


class LegacySse:
    """The clients that have a connection."""

    def __init__(self, server: Server, prefix: str = "") -> None:
        self._server = server
        self._prefix = prefix
        self._channels: dict[str, LegacyChannel] = {}
        self._serving: dict[ConnectionRunner, asyncio.Task[None]] = {}

    @property
    def full(self) -> bool:
        """Whether there is room for nobody else."""
        return len(self._serving) >= MAX_CONNECTIONS

    async def open(self, arrival: Arrival) -> None:
        """Open a stream, tell the client where to POST to, and serve it until it goes."""
        if self.full:
            await arrival.refuse(Refusal(503, INTERNAL_ERROR, "There are too many connections; try again later"))
            return
        id = self._prefix + os.urandom(16).hex()
        stream = Stream()
        channel = self._channels[id] = LegacyChannel(stream, arrival.principal)
        serving = asyncio.create_task(self.serve(channel, arrival.visitor))
        watching = asyncio.create_task(self._watch(arrival, channel))
        endpoint = sse.encode_event(f"{arrival.root}/messages?session_id={id}".encode(), name="endpoint")
        try:
            await stream.feed(arrival.reply, 0, first=endpoint)
        finally:
            del self._channels[id]
            watching.cancel()
            if channel.receiver is not None:
                channel.receiver.disconnected(_GONE)
            await asyncio.shield(asyncio.wait({serving}))

    async def message(self, arrival: Arrival, body: bytes) -> None:
        """Take a message for an open connection."""
        id = parse_qs(arrival.query.decode("latin-1")).get("session_id", [""])[0]
        channel = self._channels.get(id)
        if channel is None or channel.principal != arrival.principal or not await channel.posted(body, arrival.visitor):
            await arrival.refuse(Refusal(404, INVALID_REQUEST, "There is no such session; open a stream at /sse first"))
            return
        await arrival.reply.text(202, "Accepted")

    async def serve(self, channel: Channel, visitor: AuthenticatedCaller | None) -> None:
        """Serve one client over its channel, as the token that it came with allows and as long as it lasts."""
        principal, scopes = (None, None) if visitor is None else (visitor.name, visitor.scopes)
        serving = ConnectionRunner(self._server, channel, GRACE_SECONDS, principal)
        serving.allow(scopes)
        lifetime = TokenExpiry(visitor, lambda: _expire(serving, channel))
        if isinstance(channel, LegacyChannel):
            channel.serving, channel.lifetime = serving, lifetime
        task = asyncio.current_task()
        assert task is not None
        self._serving[serving] = task
        try:
            with lifetime:
                await serving.run()
        finally:
            del self._serving[serving]

    def stop(self, grace: float) -> None:
        """Take nothing new from anybody; calls have the grace period to end."""
        for serving in list(self._serving):
            serving.grace = grace
            serving.stop()

    async def close(self, grace: float) -> None:
        """Wait until all are served, within the grace period."""
        self.stop(grace)
        if self._serving:
            await asyncio.wait(set(self._serving.values()), timeout=grace + 1)

    async def _watch(self, arrival: Arrival, channel: LegacyChannel) -> None:
        await until_gone(arrival.receive)
        arrival.reply.gone = True
        channel.stream.wake()


def _expire(serving: ConnectionRunner, channel: Channel) -> None:
    """Take nothing new from who came with a token that has ended; calls that run have the grace period."""
    if isinstance(channel, FrameChannel):
        channel.set_close_reason(UNAUTHORIZED, TOKEN_EXPIRED)
    serving.stop()
