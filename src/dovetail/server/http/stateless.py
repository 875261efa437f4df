"""Requests that are worlds of their own: all of the envelope era, and the handshake era without sessions."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

import msgspec

from dovetail.protocol.errors import METHOD_NOT_FOUND, ProtocolError
from dovetail.protocol.terms import Terms
from dovetail.runtime.call import Call
from dovetail.runtime.connection import Connection, Work
from dovetail.server.session import ServerSession
from dovetail.transports.base import Receiver
from dovetail.transports.http.server.event_stream import Stream
from dovetail.types.capabilities import ClientCapabilities, ListCapability, ResourcesCapability, ServerCapabilities
from dovetail.wire.jsonrpc import Request

if TYPE_CHECKING:
    from dovetail.protocol.revisions.revision import Revision
    from dovetail.server.app import Server

MAX_GUESTS = 1000
"""Clients that are told apart for limits of logs and completions; beyond it the longest unseen are forgotten."""

NO_SESSIONS = "this server keeps no sessions (sessions=False), so a client of this revision cannot be asked anything"

_REMEMBERED = frozenset({"resources/subscribe", "resources/unsubscribe"})


class OneWay:
    """A channel that only writes, into the stream of one request."""

    __slots__ = ("_stream",)

    def __init__(self, stream: Stream | None) -> None:
        self._stream = stream

    @property
    def congested(self) -> bool:
        """Whether the stream is not read."""
        return self._stream is not None and self._stream.congested

    def open(self, receiver: Receiver) -> None:
        """Nothing is read here."""

    def send(self, line: bytes) -> None:
        """Write into the stream, if there is one."""
        if self._stream is not None:
            self._stream.send(line)

    def flush(self) -> None:
        """Streams write by themselves."""

    async def drained(self) -> None:
        """Wait until the stream is read."""
        if self._stream is not None:
            await self._stream.drained()

    def pause(self) -> None:
        """Nothing is read here."""

    def resume(self) -> None:
        """Nothing is read here."""

    async def close(self) -> None:
        """The stream ends with its request."""


class Guests:
    """Connections of clients without sessions, one for all requests that one client seems to send."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._known: OrderedDict[str, Connection] = OrderedDict()

    def connection(self, principal: str | None, address: str) -> Connection:
        """What serves a client that is told by its principal, or by where it calls from."""
        key = address if principal is None else f"principal {principal}"
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = Connection(OneWay(None), ServerSession(self._server, principal))
            if len(self._known) > MAX_GUESTS:
                self._known.popitem(last=False)
        else:
            self._known.move_to_end(key)
        return found


def listening(server: Server, principal: str | None, stream: Stream) -> tuple[Connection, ServerSession]:
    """A connection for one subscription, which hears of changes as long as it lasts."""
    session = ServerSession(server, principal)
    connection = Connection(OneWay(stream), session)
    session.attach(connection)
    return connection, session


class PassingSession(ServerSession):
    """A client of the handshake era without a session: one POST is all there is of it."""

    def __init__(
        self, server: Server, revision: Revision, principal: str | None, scopes: frozenset[str] | None
    ) -> None:
        super().__init__(server, principal)
        self._fixed = Terms(revision, None, ClientCapabilities(), None, principal, scopes)

    @property
    def batching(self) -> bool:
        """Whether its revision knows batches."""
        return self._fixed.revision.batching

    def terms_for(self, request: Request) -> Terms:
        """Nothing is known of the client but its revision."""
        return self._fixed

    def serve(self, call: Call) -> bytes | Work:
        """Answer a request, unless it wants something to be remembered that nobody will remember."""
        if call.request.method in _REMEMBERED:
            raise ProtocolError(METHOD_NOT_FOUND, f"{call.request.method} needs a session, and none are kept here")
        return super().serve(call)

    def offered(self) -> ServerCapabilities:
        """What works without a session: nothing that needs to be remembered, or told later."""
        offered = super().offered()
        return msgspec.structs.replace(
            offered,
            tools=offered.tools and ListCapability(),
            prompts=offered.prompts and ListCapability(),
            resources=offered.resources and ResourcesCapability(),
            logging=None,
        )


def passing(
    server: Server, revision: Revision, principal: str | None, scopes: frozenset[str] | None, stream: Stream
) -> Connection:
    """A connection for one POST of a client without a session."""
    stream.mute = NO_SESSIONS
    session = PassingSession(server, revision, principal, scopes)
    connection = Connection(OneWay(stream), session)
    session.attach(connection)
    return connection
