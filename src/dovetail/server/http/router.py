"""HTTP router: decodes and admits the messages of POST requests, and serves GET and DELETE of sessions."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable, Hashable
from types import TracebackType
from typing import TYPE_CHECKING, Any

from dovetail.protocol.admission import Admission
from dovetail.protocol.errors import INTERNAL_ERROR, INVALID_REQUEST, ProtocolError
from dovetail.protocol.headers import LAST_EVENT_KEY, SESSION_KEY
from dovetail.protocol.peer import CANCELLED
from dovetail.protocol.request_guard import Refusal, accepted, body_too_large
from dovetail.protocol.revisions.revision import Revision
from dovetail.protocol.terms import Terms
from dovetail.runtime.serve import begin
from dovetail.server.auth.token_expiry import TokenExpiry
from dovetail.server.connection import ServerConnection
from dovetail.server.dispatch import dispatch
from dovetail.server.lifespan import ApplicationLifespan
from dovetail.server.replicas.messages import SessionMessage
from dovetail.server.replicas.request_ids import encode_message, owner_of
from dovetail.server.replicas.shared_store import SharedStore
from dovetail.server.session import ServerCall, Session
from dovetail.storage.contract import Store
from dovetail.transports.http.server.asgi import BodyReader, BodyTooLarge, BodyTooSlow, Receive, Send
from dovetail.transports.http.server.event_stream import EventStream
from dovetail.transports.http.server.resumable_stream import ResumableStream
from dovetail.types.bounded_dict import BoundedDict
from dovetail.wire import codec
from dovetail.wire.jsonrpc import Id, Invalid, Message, Notification, Request, Response

from .client_limit import ClientLimit
from .http_session import HttpSession
from .legacy_sse import LegacySse
from .options import Settings
from .respond import ENDED, Responder
from .sessions import CHANGES, Sessions, TooManySessions

if TYPE_CHECKING:
    from dovetail.server.auth.authenticator import AuthenticatedCaller
    from dovetail.server.core import ServerCore
    from dovetail.server.replicas.replica import Replica

    from .request import HttpRequest

logger = logging.getLogger("dovetail")

MAX_STREAMS = 64
"""Streams of one session that are open at once."""

MAX_CLIENTS = 1000
"""Clients without a session that limits are counted for; beyond it the longest unseen are forgotten."""

JSON_ONLY = "this server answers with JSON only (json_response=True), so a client cannot be asked anything meanwhile"
NO_SESSIONS = "this server keeps no sessions (sessions=False), so a client of this revision cannot be asked anything"


class HttpRouter:
    """Everything that one application serves."""

    def __init__(self, core: ServerCore, settings: Settings, *, ephemeral: bool = False) -> None:
        """`ephemeral` is true if the store is of no use to a later run, as that which the workers of one run share."""
        self._core = core
        self._settings = settings
        if settings.keys:
            core.use_keys(settings.keys)
        self._shared = SharedStore(core, settings.store, ephemeral=ephemeral, tasks=settings.tasks)
        self._admission = Admission(core.served, core, strict=settings.strict_headers)
        self._bodies = BodyReader(settings.max_body, settings.body_seconds)
        self._responder = Responder(settings.poll_seconds)
        self._lifespan = ApplicationLifespan(lambda: _Attachment(core, self.share_store))
        self._dispatch = functools.partial(dispatch, core)
        self._sessions: Sessions | None = None
        self._clients: BoundedDict[Hashable, Session] = BoundedDict(MAX_CLIENTS)
        self._streams = ClientLimit("streams", settings.max_streams, settings.max_streams_each, option="max_streams")
        self._subscribers: set[Session] = set()
        self.handshake = any(revision.era == "handshake" for revision in core.served.values())
        self._has_sessions = self.handshake and settings.sessions
        self.methods: tuple[str, ...] = ("POST", "GET", "DELETE") if self._has_sessions else ("POST",)
        self.closed = False
        self.replica: Replica | None = None
        """This process among those that share the store, if it is one that can be shared."""
        self.legacy = LegacySse(core, settings)

    async def start(self) -> None:
        """Enter the server's lifespan; the first request does it where nothing did before."""
        await self._lifespan.enter()

    async def share_store(self) -> None:
        """Keep in the store what has to be known elsewhere, or later; join the replicas that share it."""
        await self._shared.join(self._joined)

    def _joined(self, replica: Replica) -> None:
        self.replica = replica
        self.legacy.join(replica)
        if self._has_sessions:
            self._sessions = Sessions(self._core, replica.store, self._settings, replica)
            self._core.find_session = self._sessions.find_for

    def health(self) -> dict[str, Any]:
        """The body of the health endpoint."""
        return {
            "server": self._core.info.name,
            "version": self._core.info.version,
            "sessions": len(self._sessions) if self._sessions is not None else 0,
            "calls": len(self._responder),
            **self._replica_health(),
        }

    def _replica_health(self) -> dict[str, Any]:
        replica = self.replica
        if replica is None:
            return {}
        return {"replica": replica.id, "store": "ok" if replica.unavailable is None else "unavailable"}

    async def serve(self, request: HttpRequest) -> None:
        """Serve a request to the MCP endpoint."""
        if not self._lifespan.entered:
            await self.start()
        if request.method == "GET":
            await self._get(request)
            return
        if request.method == "DELETE":
            await self._delete(request)
            return
        request.task = task = asyncio.current_task()
        assert task is not None
        try:
            body = await self._bodies.read(request.receive, task)
        except (BodyTooLarge, BodyTooSlow) as problem:
            await self._refuse_body(request, problem)
            return
        message = request.message = codec.decode(body)
        headers, session, agreed = request.headers, None, None
        if self._has_sessions and SESSION_KEY in headers:
            sessions = self._sessions or self.sessions
            session = await sessions.find(request, headers[SESSION_KEY].decode("latin-1"))
            agreed = None if session is None else session.state.lifecycle.terms
        scopes = None if request.caller is None else request.caller.scopes
        terms = self._admission.admit(message, headers, agreed, request.principal, scopes)
        if isinstance(terms, Refusal):
            await request.refuse(terms, _id_of(message))
        elif request.caller is not None and (needed := self._missing_scopes(message, request.caller)):
            await request.refuse(request.caller.insufficient_scope(needed), _id_of(message))
        elif terms.revision.era == "envelope":
            await self._envelope(request, message, terms)
        elif session is None or (isinstance(message, Request) and message.method == "initialize"):
            await self._without_session(request, message, terms)
        else:
            await self._in_session(request, session, message, terms)

    def _missing_scopes(self, message: Message | list[Message], caller: AuthenticatedCaller) -> tuple[str, ...]:
        """The scopes of a called tool, where the token lacks any; a tool that is not visible does not count."""
        for one in message if isinstance(message, list) else (message,):
            name = one.params.get("name") if isinstance(one, Request) and one.method == "tools/call" else None
            tool = self._core.tools.get(name) if isinstance(name, str) else None
            if tool is None or tool.allowed(caller.scopes):
                continue
            if self._core.shows(caller.name, "tool", tool.name):
                return tool.scopes
        return ()

    async def legacy_open(self, request: HttpRequest) -> None:
        """Open a stream of HTTP+SSE."""
        if not self._lifespan.entered:
            await self.start()
        await self.legacy.open(request)

    async def legacy_message(self, request: HttpRequest) -> None:
        """Pass a POST on to a connection of HTTP+SSE; a token that lacks scopes is refused here, with a challenge."""
        if not self._lifespan.entered:
            await self.start()
        if (body := await self.read_body(request)) is None:
            return
        caller, message = request.caller, codec.decode(body)
        if caller is not None and (needed := self._missing_scopes(message, caller)):
            await request.refuse(caller.insufficient_scope(needed), _id_of(message))
        else:
            await self.legacy.message(request, body, message)

    async def websocket(
        self,
        receive: Receive,
        send: Send,
        subprotocols: list[str],
        caller: AuthenticatedCaller | None,
        client_key: Hashable,
    ) -> None:
        """Serve a client over a WebSocket that `legacy.limit` has admitted, until it goes."""
        from dovetail.transports.websocket import AsgiWebSocketChannel

        if not self._lifespan.entered:
            await self.start()
        channel = AsgiWebSocketChannel(receive, send, self._settings.max_body)
        if await channel.accept(subprotocols):
            await self.legacy.serve(channel, caller, client_key)

    async def read_body(self, request: HttpRequest) -> bytes | None:
        """The body of a request; None if it is too large or too slow, and has been refused."""
        request.task = task = asyncio.current_task()
        assert task is not None
        try:
            return await self._bodies.read(request.receive, task)
        except (BodyTooLarge, BodyTooSlow) as problem:
            await self._refuse_body(request, problem)
            return None

    @property
    def sessions(self) -> Sessions:
        """The sessions, over the store that was given."""
        if self._sessions is None:
            self._sessions = Sessions(self._core, self.store, self._settings)
        return self._sessions

    @property
    def store(self) -> Store:
        """The store of sessions and events."""
        return self._shared.store

    @property
    def common_store(self) -> Store | None:
        """The store that other applications may use too: the one that was given, or that of all workers."""
        return self._shared.common

    def stop(self, grace: float) -> None:
        """Begin to shut down: subscriptions and idle streams end, calls go on for the grace period."""
        for session in self._subscribers:
            session.subscriptions.end()
        self.legacy.stop(grace)
        if self._sessions is not None:
            for live in self._sessions.live():
                live.end_standalone()

    async def close(self, grace: float) -> None:
        """Shut down: calls get the grace period, then they are cancelled."""
        if self.closed:
            return
        self.closed = True
        self.stop(grace)
        farewell = ProtocolError(INTERNAL_ERROR, ENDED)
        sessions = self._sessions.live() if self._sessions is not None else []
        calls = [session.connection.finish_calls(grace, farewell) for session in sessions]
        if self._shared.remote_calls is not None:
            calls.append(self._shared.remote_calls.finish(grace))
        calls.append(self._shared.stop_tasks(grace))
        await asyncio.gather(self.legacy.close(grace), self._responder.finish(grace), *calls)
        if self._sessions is not None:
            await self._sessions.close()
        await self._shared.leave()
        await self._lifespan.leave()
        await self._shared.close()

    async def _refuse_body(self, request: HttpRequest, problem: BodyTooLarge | BodyTooSlow) -> None:
        if isinstance(problem, BodyTooLarge):
            refusal = body_too_large(self._settings.max_body)
        else:
            text = f"The body did not arrive within {self._settings.body_seconds:g} s"
            refusal = Refusal(408, INVALID_REQUEST, text)
        request.response.add_header(b"connection", b"close")
        await request.refuse(refusal)

    async def _envelope(self, request: HttpRequest, message: Message | list[Message], terms: Terms) -> None:
        if not isinstance(message, Request):
            # The only notification there was on this era, cancelled, is not for HTTP; extensions may have some.
            if isinstance(message, Notification):
                self._core.notified(message)
            await request.response.empty(202)
            return
        json, events = accepted(request.headers)
        if message.method == "subscriptions/listen":
            await self._listen(request, message, terms, EventStream(quiet=not events))
            return
        stream = EventStream(quiet=self._settings.json_response or not events)
        stream.request_headers = request.headers
        call = ServerCall(message, terms, stream, None, functools.partial(self._client, request))
        outcome = begin(call, self._dispatch)
        await self._responder.respond(request, stream, terms.revision, json, call=call, outcome=outcome)

    def _client(self, request: HttpRequest) -> Session:
        """The limits of a client without a session, which is known by its principal, or by its address."""
        key = request.client_key
        session = self._clients.get_and_refresh(key)
        if session is None:
            session = self._clients[key] = Session(self._core, request.principal, client_key=key)
        return session

    async def _listen(self, request: HttpRequest, message: Request, terms: Terms, stream: EventStream) -> None:
        if stream.quiet:
            problem = "subscriptions/listen is answered with a stream of events, which this request does not accept"
            await request.refuse(Refusal(406, INVALID_REQUEST, problem), message.id)
            return
        client_key = request.client_key
        if (refusal := self._streams.admit(client_key)) is not None:
            await request.refuse(refusal, message.id)
            return
        session = Session(self._core, request.principal, client_key=client_key)
        session.subscriptions.attach(stream)
        self._subscribers.add(session)
        self._core.add_session(session)
        call = ServerCall(message, terms, stream, None, session)
        try:
            with TokenExpiry(request.caller, session.subscriptions.end):
                outcome = begin(call, self._dispatch)
                await self._responder.respond(request, stream, terms.revision, False, call=call, outcome=outcome)
        finally:
            self._core.remove_session(session)
            self._subscribers.discard(session)
            self._streams.release(client_key)

    async def _without_session(self, request: HttpRequest, message: Message | list[Message], terms: Terms) -> None:
        """Serve a message of the handshake era outside of a session: its first one, or any with `sessions=False`."""
        if not self._settings.sessions:
            json, events = accepted(request.headers)
            stream = EventStream(quiet=self._settings.json_response or not events)
            stream.no_requests = NO_SESSIONS
            stream.request_headers = request.headers
            key = request.client_key
            session = Session(self._core, request.principal, client_key=key, keeps_state=False)
            connection = ServerConnection(self._core, stream, session).connection
            connection.receive(message, stream, terms)
            await self._answer(request, stream, message, terms.revision, json, None)
        elif isinstance(message, Request) and message.method == "initialize":
            await self._initialize(request, message, terms)
        else:
            await _refuse_without_session(request, message)

    async def _initialize(self, request: HttpRequest, message: Request, terms: Terms) -> None:
        try:
            session = await self.sessions.begin(request.principal, request.client_key)
        except TooManySessions as problem:
            await request.refuse(problem.refusal, message.id)
            return
        stream = EventStream(quiet=True)
        session.connection.receive(message, stream)
        await stream.first_message(None)
        if session.terms is not None:
            try:
                await self.sessions.register(session)
            except TooManySessions as problem:
                self._core.session_ended(session.state)
                await session.connection.close()
                await request.refuse(problem.refusal, message.id)
                return
            request.response.add_header(b"mcp-session-id", session.id.encode())
        else:
            await session.connection.close()
        answer = stream.sole_answer()
        assert answer is not None  # a handshake is always answered
        await request.response.message(200, answer)

    async def _in_session(
        self, request: HttpRequest, session: HttpSession, message: Message | list[Message], terms: Terms
    ) -> None:
        json, events = accepted(request.headers)
        quiet = self._settings.json_response or not events
        stream: EventStream
        if quiet or not terms.revision.resumable:
            stream = EventStream(quiet=quiet)
            stream.no_requests = JSON_ONLY if quiet else None
        else:
            stream = ResumableStream(requests=(message.id,) if isinstance(message, Request) else _ids(message))
        stream.request_headers = request.headers
        if self.replica is not None:
            left = await self._hand_over(self.replica, session, message)
            if left is None:
                await request.response.empty(202)
                return
            message = left
        session.busy += 1
        try:
            session.connection.receive(message, stream, terms)
            if isinstance(message, Request | Notification) and message.method in CHANGES:
                # Before it is acknowledged: the next request may reach another replica.
                if isinstance(message, Request):
                    await stream.first_message(None)
                if _is_accepted(message, stream) and not await self.sessions.changed(session, message):
                    await _refuse_without_session(request, message)
                    return
            await self._answer(request, stream, message, terms.revision, json, session)
        finally:
            session.busy -= 1

    async def _hand_over(
        self, replica: Replica, session: HttpSession, message: Message | list[Message]
    ) -> Message | list[Message] | None:
        """Send messages on to the replicas whose calls they are for; the rest, None if there is none."""
        left: list[Message] = []
        for one in message if isinstance(message, list) else (message,):
            owner = owner_of(one)
            if owner is not None and owner != replica.id:
                await replica.send(owner, SessionMessage(session.id, encode_message(one)))
                continue
            if isinstance(one, Notification) and one.method == CANCELLED:
                self.sessions.cancel_elsewhere(session, one)
            left.append(one)
        if isinstance(message, list):
            return left or None
        return left[0] if left else None

    async def _answer(
        self,
        request: HttpRequest,
        stream: EventStream,
        message: Message | list[Message],
        revision: Revision,
        json: bool,
        session: HttpSession | None,
    ) -> None:
        """Answer a message of the handshake era, whose calls have tasks of their own."""
        if not isinstance(message, Request) and not _needs_answer(message):
            await request.response.empty(202)
            return
        always = self._settings.always_stream and isinstance(stream, ResumableStream)
        await self._responder.respond(request, stream, revision, json, session=session, always_stream=always)

    async def _get(self, request: HttpRequest) -> None:
        """Open the stream for messages that belong to no request, or resume a stream that broke off."""
        session, revision = await self._session_of(request)
        if session is None or revision is None:
            return
        last = request.headers.get(LAST_EVENT_KEY)
        if last is None:
            stream = await session.standalone()
            after = stream.delivered
        else:
            position = await session.find_event(last.decode("latin-1"))
            if position is None:
                problem = "The Last-Event-ID names no event of this session that is still known"
                await request.refuse(Refusal(400, INVALID_REQUEST, problem))
                return
            stream, after = position
        if session.open_streams >= MAX_STREAMS:
            await request.refuse(Refusal(429, INTERNAL_ERROR, f"{MAX_STREAMS} streams of the session are open already"))
            return
        client_key = request.client_key
        if (refusal := self._streams.admit(client_key)) is not None:
            await request.refuse(refusal)
            return
        session.open_streams += 1
        self.sessions.watch(session)
        try:
            await self._responder.write_events(request, session, stream, after, revision)
        finally:
            session.open_streams -= 1
            self._streams.release(client_key)

    async def _delete(self, request: HttpRequest) -> None:
        """End a session."""
        session, _ = await self._session_of(request)
        if session is not None:
            await self.sessions.end(session)
            await request.response.empty(204)

    async def _session_of(self, request: HttpRequest) -> tuple[HttpSession | None, Revision | None]:
        """The session and revision of a GET or DELETE; without one the request has been refused."""
        id, session = request.headers.get(SESSION_KEY), None
        if id is not None:
            session = await self.sessions.find(request, id.decode("latin-1"))
        revision = self._admission.admit_stream(request.headers, None if session is None else session.terms)
        if isinstance(revision, Refusal):
            await request.refuse(revision)
            return None, None
        if session is None:
            await _refuse_without_session(request, None)
            return None, None
        return session, revision


class _Attachment:
    """The server's lifespan with what is shared through the store.

    No generator: an application whose host never ends it leaves one that Python would complain about at the end.
    """

    def __init__(self, core: ServerCore, share_store: Callable[[], Awaitable[None]]) -> None:
        self._attached = core.attached(Session(core))
        self._share_store = share_store

    async def __aenter__(self) -> None:
        await self._attached.__aenter__()
        try:
            await self._share_store()
        except BaseException as problem:
            await self._attached.__aexit__(type(problem), problem, problem.__traceback__)
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._attached.__aexit__(kind, problem, traceback)


async def _refuse_without_session(request: HttpRequest, message: Message | list[Message] | None) -> None:
    """400 for a request without a session, 404 for one whose session is over (2025-11-25, "Session Management")."""
    if SESSION_KEY in request.headers:
        refusal = Refusal(404, INVALID_REQUEST, "There is no such session, or it has ended; begin a new one")
    else:
        refusal = Refusal(400, INVALID_REQUEST, "The Mcp-Session-Id header is missing; begin with initialize")
    await request.refuse(refusal, None if message is None else _id_of(message))


def _is_accepted(message: Request | Notification, stream: EventStream) -> bool:
    """True for a notification, and for a request that is about to be answered with a result."""
    if isinstance(message, Notification):
        return True
    answer = stream.sole_answer()
    return answer is not None and isinstance(codec.decode(answer), Response)


def _needs_answer(message: Message | list[Message]) -> bool:
    if not isinstance(message, list):
        return False
    return any(isinstance(one, Request) or (isinstance(one, Invalid) and not one.notification) for one in message)


def _ids(message: Message | list[Message]) -> list[Id]:
    """The requests that a stream answers."""
    messages = message if isinstance(message, list) else [message]
    return [one.id for one in messages if isinstance(one, Request)]


def _id_of(message: Message | list[Message]) -> Id | None:
    return message.id if isinstance(message, Request | Invalid) else None
