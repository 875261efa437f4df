"""HTTP+SSE of 2024-11-05: one event stream for everything the server sends, and an endpoint to POST to.

WebSockets, which are one connection for one client too, are served here as well.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Hashable
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from dovetail.protocol.errors import INVALID_REQUEST, PARSE_ERROR
from dovetail.protocol.request_guard import Refusal
from dovetail.server.auth.token_expiry import TOKEN_EXPIRED, UNAUTHORIZED, TokenExpiry
from dovetail.server.connection import ConnectionRunner
from dovetail.server.replicas.messages import LegacyMessage
from dovetail.server.replicas.replica import ID_LENGTH
from dovetail.storage.contract import StoreError
from dovetail.transports.base import Channel, Receiver
from dovetail.transports.http.server.event_stream import EventStream
from dovetail.transports.websocket import FrameChannel
from dovetail.wire import codec, sse
from dovetail.wire.codec import Decoded
from dovetail.wire.jsonrpc import Invalid

from .client_limit import ClientLimit

if TYPE_CHECKING:
    from dovetail.server.auth.authenticator import AuthenticatedCaller
    from dovetail.server.core import ServerCore
    from dovetail.server.replicas.replica import Replica

    from .options import Settings
    from .request import HttpRequest

GRACE_SECONDS = 5.0
"""Seconds that the calls of a client may continue after it has closed its side."""

STORED_SECONDS = 86_400.0
"""Seconds that the owner of a stream is stored for other replicas; renewed by nothing, since clients reconnect."""

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

    async def receive(self, posted: LegacyMessage) -> bool:
        """Pass on what was posted, with the scopes of its token, once the connection reads; False if it is closed."""
        await self._running.wait()
        if self.receiver is None or self.runner is None:
            return False
        self.runner.allow(posted.scopes)
        if self.expiry is not None and posted.scopes is not None:
            self.expiry.extend(posted.valid_until)
        self.receiver.received(posted.line)
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

    def __init__(self, core: ServerCore, settings: Settings) -> None:
        self._core = core
        self._replica: Replica | None = None
        self.limit = ClientLimit(
            "connections", settings.max_connections, settings.max_connections_each, option="max_connections"
        )
        self._channels: dict[str, LegacyChannel] = {}
        self._runners: dict[ConnectionRunner, asyncio.Task[None]] = {}
        self._receiving: set[asyncio.Task[bool]] = set()

    def join(self, replica: Replica) -> None:
        """Accept messages that were posted to other replicas, and send those on whose stream is elsewhere."""
        self._replica = replica
        replica.on(LegacyMessage, self._posted_elsewhere)

    async def open(self, request: HttpRequest) -> None:
        """Open a stream, name the endpoint for POSTs, and serve the client until it disconnects."""
        client_key = request.client_key
        if (refusal := self.limit.admit(client_key)) is not None:
            await request.refuse(refusal)
            return
        try:
            id = await self._new_id(request.principal)
        except BaseException:
            self.limit.release(client_key)
            raise
        stream = EventStream()
        channel = self._channels[id] = LegacyChannel(stream, request.principal)
        runner = asyncio.create_task(self.serve(channel, request.caller, client_key))
        watching = request.watch(channel.stream.wake)
        endpoint = sse.encode_event(f"{request.root_path}/messages?session_id={id}".encode(), name="endpoint")
        try:
            await stream.write_to(request.response, first=endpoint)
        finally:
            del self._channels[id]
            watching.cancel()
            if channel.receiver is not None:
                channel.receiver.disconnected(_GONE)
            try:
                await asyncio.shield(asyncio.wait({runner}))
            finally:
                self.limit.release(client_key)
                await self._forget(id)

    async def _new_id(self, principal: str | None) -> str:
        """An id for a stream; where there are other replicas it begins with this one's, and they know its principal."""
        id = os.urandom(16).hex()
        if self._replica is not None:
            id = self._replica.id + id
            await self._replica.ensure_alive()
            await self._replica.store.put(_key(id), codec.encode(principal), STORED_SECONDS)
        return id

    async def _forget(self, id: str) -> None:
        if self._replica is not None:
            with contextlib.suppress(StoreError):  # it expires
                await self._replica.store.delete(_key(id))

    async def _send_on(self, posted: LegacyMessage, principal: str | None) -> bool:
        """Send a message on to the replica that has the stream; False if there is none, or not of this principal."""
        replica, owner = self._replica, posted.session[:ID_LENGTH]
        if replica is None or owner == replica.id or not owner:
            return False
        if await replica.store.get(_key(posted.session)) != codec.encode(principal):
            return False
        if not await replica.is_alive(owner):
            return False
        await replica.send(owner, posted)
        return True

    def _posted_elsewhere(self, message: LegacyMessage) -> None:
        channel = self._channels.get(message.session)
        if channel is not None:
            task = asyncio.get_running_loop().create_task(channel.receive(message))
            self._receiving.add(task)
            task.add_done_callback(self._receiving.discard)

    async def message(self, request: HttpRequest, body: bytes, message: Decoded) -> None:
        """Pass a message on to its connection; what is no JSON is refused here, all else is answered on the stream."""
        id = parse_qs(request.query.decode("latin-1")).get("session_id", [""])[0]
        channel = self._channels.get(id)
        if channel is not None and channel.principal != request.principal:
            channel = None
        if channel is not None and isinstance(message, Invalid) and message.code == PARSE_ERROR:
            null_id = channel.runner is not None and channel.runner.null_id
            await request.response.message(
                400, codec.failure(message.id, message.code, message.message, null_id=null_id)
            )
            return
        caller = request.caller
        scopes, until = (None, None) if caller is None else (caller.scopes, caller.valid_until)
        posted = LegacyMessage(id, body, scopes, until)
        if channel is None:
            accepted = await self._send_on(posted, request.principal)
        else:
            accepted = await channel.receive(posted)
        if not accepted:
            await request.refuse(Refusal(404, INVALID_REQUEST, "There is no such session; open a stream at /sse first"))
            return
        await request.response.text(202, "Accepted")

    async def serve(self, channel: Channel, caller: AuthenticatedCaller | None, client_key: Hashable) -> None:
        """Serve one client over its channel, with the scopes of its token and until the token expires."""
        principal, scopes = (None, None) if caller is None else (caller.name, caller.scopes)
        runner = ConnectionRunner(self._core, channel, GRACE_SECONDS, principal, client_key)
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


def _key(id: str) -> str:
    return f"sse:{id}"


def _expire(runner: ConnectionRunner, channel: Channel) -> None:
    """Accept nothing new from a client whose token has expired; calls that run have the grace period."""
    if isinstance(channel, FrameChannel):
        channel.set_close_reason(UNAUTHORIZED, TOKEN_EXPIRED)
    runner.stop()
