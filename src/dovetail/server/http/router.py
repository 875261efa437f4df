"""Serving what came in over HTTP: under its revision, in its session, on its stream."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from dovetail.protocol.admission import admit, admit_stream, refused
from dovetail.protocol.envelope import EnvelopeReader, meta_of
from dovetail.protocol.errors import INTERNAL_ERROR, INVALID_REQUEST, ProtocolError
from dovetail.protocol.headers import LAST_EVENT_KEY, SESSION_KEY
from dovetail.protocol.request_guard import Refusal, accepts_json, accepts_sse
from dovetail.protocol.revisions.revision import Revision
from dovetail.protocol.terms import Terms
from dovetail.runtime.call import Call
from dovetail.runtime.connection import Connection
from dovetail.server.auth.token_expiry import TokenExpiry
from dovetail.server.lifespan import ApplicationLifespan
from dovetail.server.session import ServerSession
from dovetail.storage.contract import Store
from dovetail.transports.http.server.asgi import Receive, Send, until_gone
from dovetail.transports.http.server.event_stream import Stream
from dovetail.transports.http.server.timeout_wheel import Ticker
from dovetail.wire import codec
from dovetail.wire.jsonrpc import Id, Invalid, Message, Notification, Request

from .inline_call import ENDED, LONG_SECONDS, Alone
from .legacy_sse import LegacySse
from .options import Settings
from .sessions import HttpSession, Sessions, TooManySessions
from .stateless import Guests, listening, passing

if TYPE_CHECKING:
    from dovetail.server.app import Server
    from dovetail.server.auth.authenticator import AuthenticatedCaller

    from .asgi_app import Arrival

MAX_STREAMS = 64
"""Streams of one session that are open at once."""

JSON_ONLY = "this server answers with JSON only (json_response=True), so a client cannot be asked anything meanwhile"

_CHANGES = frozenset({"notifications/initialized", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"})
"""What changes what is stored of a session."""


class Exchanges:
    """Everything that one application serves."""

    def __init__(self, server: Server, settings: Settings, prefix: str = "") -> None:
        self._server = server
        self._settings = settings
        self._prefix = prefix
        """What ids of sessions begin with."""
        self._reader = EnvelopeReader(server.served)
        self._guests = Guests(server)
        self._lifespan = ApplicationLifespan(lambda: server.joined(ServerSession(server)))
        self._sessions: Sessions | None = None
        self._store: Store | None = None
        self._alone = Alone()
        self._long = Ticker(LONG_SECONDS)
        self._listening: dict[Call, Any] = {}
        self.handshake = any(revision.era == "handshake" for revision in server.served.values())
        streams = self.handshake and settings.sessions
        self.methods: tuple[str, ...] = ("POST", "GET", "DELETE") if streams else ("POST",)
        self.closed = False
        self.legacy = LegacySse(server, prefix)

    async def ready(self) -> None:
        """Enter the server's lifespan, at the first request if nobody did before."""
        await self._lifespan.enter()
        if self._settings.store is not None:
            # A state that one process has seen is used up for all that share the store.
            self._server.desk.store = self.store

    def health(self) -> dict[str, Any]:
        """What the health endpoint says."""
        return {
            "server": self._server.info.name,
            "version": self._server.info.version,
            "sessions": len(self._sessions) if self._sessions is not None else 0,
            "calls": len(self._alone),
        }

    async def post(self, arrival: Arrival, body: bytes) -> None:
        """Serve the message, or the batch, in the body of a POST."""
        if not self._lifespan.entered:
            await self.ready()
        message = arrival.message = codec.decode(body)
        headers = arrival.headers
        session = None
        id = headers.get(SESSION_KEY)
        if id is not None and self._settings.sessions and self.handshake:
            session = await self.sessions.find(id.decode("latin-1"), arrival.principal)
        agreed = None if session is None or session.service.terms is None else session.service.terms.revision
        revision = admit(
            message,
            headers,
            self._server.served,
            agreed,
            strict=self._settings.strict_headers,
            paths_of=self._server.header_paths,
        )
        if isinstance(revision, Refusal):
            await arrival.refuse(revision, _id_of(message))
        elif arrival.visitor is not None and (needed := self._lacking(message, arrival.visitor)):
            await arrival.refuse(arrival.visitor.insufficient_scope(needed), _id_of(message))
        elif revision.era == "envelope":
            await self._envelope(arrival, message, revision)
        elif not self._settings.sessions:
            await self._passing(arrival, message, revision)
        elif isinstance(message, Request) and message.method == "initialize":
            await self._initialize(arrival, message)
        elif session is None:
            await _no_session(arrival, message)
        else:
            await self._in_session(arrival, session, message, revision)

    def _lacking(self, message: Message | list[Message], visitor: AuthenticatedCaller) -> tuple[str, ...]:
        """What a tool needs that a message calls, where the token does not allow it; tools not seen are not there."""
        for one in message if isinstance(message, list) else (message,):
            name = one.params.get("name") if isinstance(one, Request) and one.method == "tools/call" else None
            tool = self._server.tools.get(name) if isinstance(name, str) else None
            if tool is None or tool.allowed(visitor.scopes):
                continue
            if self._server.shows(visitor.name, "tool", tool.name):
                return tool.scopes
        return ()

    async def get(self, arrival: Arrival) -> None:
        """Open a stream for what belongs to no request, or take up one that broke off."""
        session, revision = await self._session_of(arrival)
        if session is None or revision is None:
            return
        last = arrival.headers.get(LAST_EVENT_KEY)
        if last is None:
            stream = await session.standalone()
            after = stream.delivered
        else:
            found = await session.find_stream(last.decode("latin-1"))
            if found is None:
                problem = "The Last-Event-ID names no event of this session that is still known"
                await arrival.refuse(Refusal(400, INVALID_REQUEST, problem))
                return
            stream, after = found
        if session.listening >= MAX_STREAMS:
            await arrival.refuse(Refusal(429, INTERNAL_ERROR, f"{MAX_STREAMS} streams of the session are open already"))
            return
        session.listening += 1
        try:
            await self._feed(arrival, session, stream, after, revision)
        finally:
            session.listening -= 1

    async def delete(self, arrival: Arrival) -> None:
        """End a session."""
        session, _ = await self._session_of(arrival)
        if session is not None:
            await self.sessions.end(session)
            await arrival.reply.empty(204)

    async def legacy_message(self, arrival: Arrival, body: bytes) -> None:
        """Take a message for a connection of HTTP+SSE; what its token does not allow is refused here, not there."""
        visitor = arrival.visitor
        if visitor is not None and (needed := self._lacking(message := codec.decode(body), visitor)):
            await arrival.refuse(visitor.insufficient_scope(needed), _id_of(message))
        else:
            await self.legacy.message(arrival, body)

    async def websocket(
        self, receive: Receive, send: Send, subprotocols: list[str], visitor: AuthenticatedCaller | None
    ) -> None:
        """Serve a client over a WebSocket until it goes."""
        from dovetail.transports.websocket import AsgiWebSocketChannel

        if not self._lifespan.entered:
            await self.ready()
        if self.legacy.full:
            await receive()
            await send({"type": "websocket.close", "code": 1013})
            return
        channel = AsgiWebSocketChannel(receive, send, self._settings.max_body)
        if await channel.accept(subprotocols):
            await self.legacy.serve(channel, visitor)

    @property
    def sessions(self) -> Sessions:
        """The sessions, over the store that was given."""
        if self._sessions is None:
            self._sessions = Sessions(self._server, self.store, self._settings, self._prefix)
        return self._sessions

    @property
    def store(self) -> Store:
        """Where sessions are kept."""
        if self._store is None:
            given = self._settings.store
            if given is None:
                from dovetail.storage.memory import MemoryStore

                self._store = MemoryStore()
            elif isinstance(given, str):
                from dovetail.storage.sqlite import SqliteStore

                self._store = SqliteStore(given)
            else:
                self._store = given
        return self._store

    def stop(self, grace: float) -> None:
        """Take nothing new: subscriptions and idle streams end, calls go on for the grace period."""
        for session in self._listening.values():
            session.subscriptions.end()
        self.legacy.stop(grace)
        if self._sessions is not None:
            for live in self._sessions.live():
                live.end_standalone()

    async def close(self, grace: float) -> None:
        """End everything: calls get the grace period, then they are stopped."""
        if self.closed:
            return
        self.closed = True
        self.stop(grace)
        farewell = ProtocolError(INTERNAL_ERROR, ENDED)
        sessions = self._sessions.live() if self._sessions is not None else []
        calls = [session.connection.finish_calls(grace, farewell) for session in sessions]
        await asyncio.gather(self.legacy.close(grace), self._alone.finish(grace), *calls)
        if self._sessions is not None:
            await self._sessions.close()
        await self._lifespan.leave()
        if self._store is not None and self._store is not self._settings.store:
            await self._store.close()

    async def _envelope(self, arrival: Arrival, message: Message | list[Message], revision: Revision) -> None:
        if not isinstance(message, Request):
            # The only notification there was on this era, cancelled, is not for HTTP; extensions may have some.
            if isinstance(message, Notification):
                self._guests.connection(arrival.principal, arrival.address).service.notified(message)
            await arrival.reply.empty(202)
            return
        try:
            terms = self._terms(message, arrival)
        except ProtocolError as problem:
            await arrival.refuse(refused(problem), message.id)
            return
        events = accepts_sse(arrival.headers)
        if message.method == "subscriptions/listen":
            await self._listen(arrival, message, terms, Stream(quiet=not events))
            return
        stream = Stream(quiet=self._settings.json_response or not events)
        connection = self._guests.connection(arrival.principal, arrival.address)
        await self._alone.serve(arrival, Call(connection, message, terms, stream), stream)

    def _terms(self, request: Request, arrival: Arrival) -> Terms:
        meta = meta_of(request.params)
        assert meta is not None
        terms = self._reader.terms(meta)
        if arrival.principal is None:
            return terms
        return msgspec.structs.replace(terms, principal=arrival.principal, scopes=arrival.scopes)

    async def _listen(self, arrival: Arrival, request: Request, terms: Terms, stream: Stream) -> None:
        if stream.quiet:
            problem = "subscriptions/listen is answered with a stream of events, which this request does not accept"
            await arrival.refuse(Refusal(406, INVALID_REQUEST, problem), request.id)
            return
        connection, session = listening(self._server, arrival.principal, stream)
        call = Call(connection, request, terms, stream)
        self._listening[call] = session
        self._server.enrol(session)
        try:
            with TokenExpiry(arrival.visitor, session.subscriptions.end):
                await self._alone.serve(arrival, call, stream)
        finally:
            self._server.dismiss(session)
            del self._listening[call]
            await connection.stop()

    async def _passing(self, arrival: Arrival, message: Message | list[Message], revision: Revision) -> None:
        """Serve one POST of the handshake era that stands alone."""
        stream = Stream(quiet=self._settings.json_response or not accepts_sse(arrival.headers))
        connection = passing(self._server, revision, arrival.principal, arrival.scopes, stream)
        await self._take(arrival, connection, message, stream, revision)

    async def _initialize(self, arrival: Arrival, request: Request) -> None:
        try:
            session = await self.sessions.begin(arrival.principal)
        except TooManySessions:
            wait = ((b"retry-after", b"60"),)
            full = Refusal(503, INTERNAL_ERROR, "There are too many sessions; try again later", headers=wait)
            await arrival.refuse(full, request.id)
            return
        stream = Stream(quiet=True)
        session.connection.take(request, stream)
        await stream.begun(None)
        terms = session.service.terms
        if terms is not None:
            await self.sessions.register(session)
            arrival.reply.add_header(b"mcp-session-id", session.id.encode())
        else:
            await session.connection.close()
        answer = stream.sole_answer()
        assert answer is not None  # a handshake is answered always
        await arrival.reply.json(200, answer)

    async def _in_session(
        self, arrival: Arrival, session: HttpSession, message: Message | list[Message], revision: Revision
    ) -> None:
        quiet = self._settings.json_response or not accepts_sse(arrival.headers)
        stream = session.begin_stream(resumable=revision.resumable and not quiet)
        stream.quiet = quiet
        if quiet:
            stream.mute = JSON_ONLY
        session.service.scopes = arrival.scopes
        session.busy += 1
        try:
            await self._take(arrival, session.connection, message, stream, revision, session)
        finally:
            session.busy -= 1
        if isinstance(message, Request | Notification) and message.method in _CHANGES:
            await self.sessions.changed(session)

    async def _take(
        self,
        arrival: Arrival,
        connection: Connection,
        message: Message | list[Message],
        stream: Stream,
        revision: Revision,
        session: HttpSession | None = None,
    ) -> None:
        """Take a message of the handshake era, and answer when there is something to say."""
        connection.take(message, stream)
        if not _wants_answer(message):
            await arrival.reply.empty(202)
            return
        resumable = session is not None and not stream.quiet and revision.resumable
        if not (resumable and self._settings.always_stream):
            if not stream.ended:
                await stream.begun(None if stream.quiet else self._long)
            answer = stream.sole_answer()
            if answer is not None and accepts_json(arrival.headers):
                await arrival.reply.json(200, answer)
                return
        if session is not None and resumable:
            session.streams[stream.id] = stream
            await stream.open_log(codec.encode(_ids(message)))
        await self._feed(arrival, session, stream, 0, revision)

    async def _feed(
        self, arrival: Arrival, session: HttpSession | None, stream: Stream, after: int, revision: Revision
    ) -> None:
        """Write a stream to a client until it ends or the client goes; then what still comes is kept."""
        reply = arrival.reply
        watcher = asyncio.create_task(_watch(arrival, stream))
        poll = self._settings.poll_seconds if revision.sse_polling else None
        alarm = None if poll is None else asyncio.get_running_loop().call_later(poll, stream.let_go, 1.0)
        if session is not None:
            session.busy += 1

        def let_go() -> None:
            reply.leaving = True
            stream.wake()

        def can_return() -> bool:
            # Who has seen no event of a call, nor the id of one, cannot ask for what comes after it.
            return session is not None and (arrival.method == "GET" or bool(first) or stream.spoken)

        first = stream.priming(after) if revision.sse_polling and stream.opened else b""
        try:
            with TokenExpiry(arrival.visitor, let_go, can_return):
                await stream.feed(reply, after, first=first)
        finally:
            watcher.cancel()
            if alarm is not None:
                alarm.cancel()
            if session is not None:
                session.busy -= 1
                await self._left(session, stream)
            else:
                stream.finish(None)  # nobody can come back to it, so nobody need wait for it to be read

    async def _left(self, session: HttpSession, stream: Stream) -> None:
        if stream.connected:
            return
        if not stream.ended:
            session.keep(stream)
        elif stream.id in session.streams:
            await stream.store()
            await session.retire(stream)

    async def _session_of(self, arrival: Arrival) -> tuple[HttpSession | None, Revision | None]:
        """The session and revision of a GET or DELETE; without one the request has been refused."""
        if not self._lifespan.entered:
            await self.ready()
        id = arrival.headers.get(SESSION_KEY)
        session = None
        if id is not None:
            session = await self.sessions.find(id.decode("latin-1"), arrival.principal)
        agreed = None if session is None or session.service.terms is None else session.service.terms.revision
        revision = admit_stream(arrival.headers, self._server.served, agreed)
        if isinstance(revision, Refusal):
            await arrival.refuse(revision)
            return None, None
        if session is None:
            await _no_session(arrival, None)
            return None, None
        return session, revision


async def _watch(arrival: Arrival, stream: Stream) -> None:
    await until_gone(arrival.receive)
    arrival.reply.gone = True
    stream.wake()


async def _no_session(arrival: Arrival, message: Message | list[Message] | None) -> None:
    """400 for a request without a session, 404 for one whose session is over (2025-11-25, "Session Management")."""
    if SESSION_KEY in arrival.headers:
        refusal = Refusal(404, INVALID_REQUEST, "There is no such session, or it has ended; begin a new one")
    else:
        refusal = Refusal(400, INVALID_REQUEST, "The Mcp-Session-Id header is missing; begin with initialize")
    await arrival.refuse(refusal, None if message is None else _id_of(message))


def _wants_answer(message: Message | list[Message]) -> bool:
    if isinstance(message, list):
        return any(isinstance(one, Request | Invalid) for one in message)
    return isinstance(message, Request)


def _ids(message: Message | list[Message]) -> list[Id]:
    """Whom a stream answers."""
    messages = message if isinstance(message, list) else [message]
    return [one.id for one in messages if isinstance(one, Request)]


def _id_of(message: Message | list[Message]) -> Id | None:
    return message.id if isinstance(message, Request | Invalid) else None
