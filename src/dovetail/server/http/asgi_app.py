"""The ASGI application: which request goes where, and what keeps strangers out."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from dovetail.protocol.admission import ASSUMED
from dovetail.protocol.errors import INTERNAL_ERROR, INVALID_REQUEST
from dovetail.protocol.headers import VERSION_KEY
from dovetail.protocol.request_guard import Cors, Edge, Headers, Refusal
from dovetail.protocol.revisions import REVISIONS
from dovetail.transports.http.server.asgi import BodyReader, BodyTooLarge, BodyTooSlow, ClientGone, Receive, Scope, Send
from dovetail.transports.http.server.response import WHOLE, Reply
from dovetail.wire import codec
from dovetail.wire.jsonrpc import Id

from .access_log import Note
from .options import Settings

if TYPE_CHECKING:
    from dovetail.server.app import Server
    from dovetail.server.auth.authenticator import AuthenticatedCaller, Authenticator
    from dovetail.server.run.session_relay import SessionRelay
    from dovetail.wire.jsonrpc import Message

    from .router import Exchanges

logger = logging.getLogger("dovetail")

_LOCAL = frozenset({"", "127.0.0.1", "::1"})


class Arrival:
    """An HTTP request that may come in: its headers, who sent it, and the answer to be written."""

    __slots__ = (
        *("address", "headers", "message", "method", "principal", "query", "receive", "reply", "root", "task"),
        "visitor",
    )

    def __init__(self, scope: Scope, headers: Headers, receive: Receive, reply: Reply) -> None:
        self.method: str = scope["method"]
        self.headers = headers
        self.query: bytes = scope.get("query_string", b"")
        self.root: str = scope.get("root_path", "")
        self.address = _address(scope.get("client"), headers)
        self.receive = receive
        self.reply = reply
        self.principal: str | None = None
        self.visitor: AuthenticatedCaller | None = None
        """Who it comes from, where there is authorization."""
        self.task: asyncio.Task[Any] | None = None
        """What serves it, once its body has been asked for."""
        self.message: Message | list[Message] | None = None
        """What its body says, once that is read."""

    @property
    def scopes(self) -> frozenset[str] | None:
        """What its token allows; None where there is no authorization."""
        return None if self.visitor is None else self.visitor.scopes

    async def refuse(self, refusal: Refusal, id: Id | None = None) -> None:
        """Answer with why it is not served; what stands for an id that is not known is up to the revision named."""
        for name, value in refusal.headers:
            self.reply.add_header(name, value)
        named = REVISIONS.get(self.headers.get(VERSION_KEY, b"").decode("latin-1"), ASSUMED)
        body = codec.failure(id, refusal.code, refusal.message, refusal.data, null_id=named.null_id)
        await self.reply.json(refusal.status, body)


Handler = Callable[[Arrival], Awaitable[None]]


class Endpoint:
    """One server as an ASGI application; it needs no lifespan, and uses one where there is one."""

    def __init__(
        self, server: Server, settings: Settings, bound: str | None = None, relay: SessionRelay | None = None
    ) -> None:
        from .router import Exchanges

        self._server = server
        self._settings = settings
        self._relay = relay
        self._exchanges = Exchanges(server, settings, "" if relay is None else relay.prefix)
        self._bodies = BodyReader(settings.max_body, settings.body_seconds)
        self._gate = _make_gate(server, settings, self._exchanges, relay)
        self._cors = Cors.build(settings.cors)
        self._edge = self._build_edge(self._exchanges.methods, bound)
        self._post_edge = self._build_edge(("POST",), bound)
        self._get_edge = self._build_edge(("GET",), bound)
        self._routes = self._make_routes()
        self._stopping = False

    def bind(self, host: str) -> None:
        """Requests may name the host that is listened on."""
        self._edge = self._build_edge(self._exchanges.methods, host)
        self._post_edge = self._build_edge(("POST",), host)
        self._get_edge = self._build_edge(("GET",), host)
        self._routes = self._make_routes()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request, one WebSocket, or the application's lifespan."""
        kind = scope["type"]
        if kind == "http":
            if self._relay is None or not await self._relay.forward(scope, receive, send):
                await self._http(scope, receive, send)
        elif kind == "websocket":
            await self._websocket(scope, receive, send)
        elif kind == "lifespan":
            await self._lifespan(receive, send)
        else:
            raise NotImplementedError(f"Dovetail serves HTTP and WebSocket, not {kind!r}")

    def stop(self, grace: float = 5.0) -> None:
        """Begin to end: nothing new is taken, streams are closed, and calls get the grace period to finish."""
        self._stopping = True
        self._exchanges.stop(grace)

    async def close(self, grace: float = 5.0) -> None:
        """End everything, calls after the grace period."""
        self._stopping = True
        await self._exchanges.close(grace)
        if self._gate is not None:
            await self._gate.close()

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = _below(scope)
        # Taken out of the scope, which it refers to: left there, each request would be a reference cycle.
        reply = Reply(send, whole_at_once=scope.pop(WHOLE, None))
        note = Note()
        try:
            route = self._routes.get(path)
            if route is None:
                await self._elsewhere(scope, path, receive, reply)
            else:
                await self._admit(*route, scope, receive, reply, note)
        except ClientGone:
            pass
        except asyncio.CancelledError:
            # Whoever runs us ends, and has told so already; a trace of it would say nothing new.
            reply.gone = True
        except Exception:
            logger.exception("Answering %s %s failed", scope["method"], path)
            if not reply.started:
                await reply.json(500, codec.failure(None, INTERNAL_ERROR, "Internal error", null_id=True))
        finally:
            note.end(scope, path, reply)

    async def _admit(
        self, edge: Edge, handler: Handler, scope: Scope, receive: Receive, reply: Reply, note: Note
    ) -> None:
        headers = edge.headers(scope["headers"])
        if isinstance(headers, Refusal):
            await Arrival(scope, {}, receive, reply).refuse(headers)
            return
        arrival = Arrival(scope, headers, receive, reply)
        note.take(arrival)
        if self._cors is not None and await self._preflight(self._cors, edge, arrival):
            return
        refusal = edge.check(arrival.method, headers)
        if refusal is None and self._stopping:
            refusal = Refusal(503, INTERNAL_ERROR, "The server is ending", headers=((b"connection", b"close"),))
        if refusal is None and self._gate is not None:
            found = await self._gate.authenticate(scope, headers, _path(scope))
            if isinstance(found, Refusal):
                refusal = found
            else:
                arrival.visitor, arrival.principal = found, found.name
        if refusal is not None:
            await arrival.refuse(refusal)
            return
        await handler(arrival)

    async def _preflight(self, cors: Cors, edge: Edge, arrival: Arrival) -> bool:
        """Tell a browser what its page may do; whether that was all it asked."""
        if edge.check_source(arrival.headers) is not None:
            return False
        allowed = cors.preflight(arrival.headers) if arrival.method == "OPTIONS" else None
        for name, value in cors.response_headers(arrival.headers) if allowed is None else allowed:
            arrival.reply.add_header(name, value)
        if allowed is not None:
            await arrival.reply.empty(204)
        return allowed is not None

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        settings = self._settings
        headers = self._edge.headers(scope["headers"])
        where = settings.path.rstrip("/") + "/ws"
        refused = (
            not settings.websocket
            or self._stopping
            or _below(scope) != where
            or isinstance(headers, Refusal)
            or self._edge.check_source(headers) is not None
        )
        visitor: AuthenticatedCaller | Refusal | None = None
        if not refused and self._gate is not None:
            assert not isinstance(headers, Refusal)
            visitor = await self._gate.authenticate(scope, headers, _path(scope))
            refused = isinstance(visitor, Refusal)
        if refused:
            await receive()
            if isinstance(visitor, Refusal) and "websocket.http.response" in scope.get("extensions", {}):
                # A client that is told what is missing can log in, as it would over HTTP.
                headers = [*visitor.headers, (b"content-length", b"0")]
                await send({"type": "websocket.http.response.start", "status": visitor.status, "headers": headers})
                await send({"type": "websocket.http.response.body", "body": b""})
            else:
                await send({"type": "websocket.close", "code": 1008})
            return
        assert not isinstance(visitor, Refusal)
        await self._exchanges.websocket(receive, send, scope.get("subprotocols") or [], visitor)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            await self._exchanges.ready()
        except Exception as problem:
            logger.exception("The server's lifespan failed")
            await send({"type": "lifespan.startup.failed", "message": f"{type(problem).__name__}: {problem}"})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.close()
        await send({"type": "lifespan.shutdown.complete"})

    def _build_edge(self, methods: tuple[str, ...], bound: str | None) -> Edge:
        settings = self._settings
        return Edge.build(
            allowed_hosts=settings.allowed_hosts,
            allowed_origins=settings.allowed_origins,
            cors=settings.cors,
            bound=bound,
            methods=methods,
            max_body=settings.max_body,
        )

    def _make_routes(self) -> dict[str, tuple[Edge, Handler]]:
        settings, exchanges = self._settings, self._exchanges
        routes: dict[str, tuple[Edge, Handler]] = {settings.path.rstrip("/") or "/": (self._edge, self._endpoint)}
        if settings.legacy_sse and exchanges.handshake:
            routes["/sse"] = (self._get_edge, exchanges.legacy.open)
            routes["/messages"] = (self._post_edge, self._legacy_message)
        return routes

    async def _endpoint(self, arrival: Arrival) -> None:
        if arrival.method == "POST":
            body = await self._body(arrival)
            if body is not None:
                await self._exchanges.post(arrival, body)
        elif arrival.method == "GET":
            await self._exchanges.get(arrival)
        else:
            await self._exchanges.delete(arrival)

    async def _legacy_message(self, arrival: Arrival) -> None:
        body = await self._body(arrival)
        if body is not None:
            await self._exchanges.legacy_message(arrival, body)

    async def _body(self, arrival: Arrival) -> bytes | None:
        """The body, or None for one that was refused."""
        settings = self._settings
        try:
            arrival.task = task = asyncio.current_task()
            assert task is not None
            return await self._bodies.read(arrival.receive, task)
        except BodyTooLarge:
            refusal = self._edge.too_large()
        except BodyTooSlow:
            refusal = Refusal(408, INVALID_REQUEST, f"The body did not arrive within {settings.body_seconds:g} s")
        arrival.reply.add_header(b"connection", b"close")
        await arrival.refuse(refusal)
        return None

    async def _elsewhere(self, scope: Scope, path: str, receive: Receive, reply: Reply) -> None:
        """Say how the server is, or where tokens are had, which anybody may ask who names the right host."""
        gate = self._gate if self._gate is not None and path in self._gate.metadata_paths else None
        if path != self._settings.health and gate is None:
            await reply.text(404, f"There is nothing at {path}; the MCP endpoint is at {self._settings.path}\n")
            return
        headers = self._edge.headers(scope["headers"])
        refusal = headers if isinstance(headers, Refusal) else self._edge.check_source(headers)
        if refusal is not None:
            await reply.text(refusal.status, refusal.message + "\n")
        elif gate is not None and self._cors is not None and scope["method"] == "OPTIONS":
            assert not isinstance(headers, Refusal)
            await self._preflight(self._cors, self._get_edge, Arrival(scope, headers, receive, reply))
        elif scope["method"] not in {"GET", "HEAD"}:
            reply.add_header(b"allow", b"GET, HEAD")
            await reply.empty(405)
        elif gate is not None:
            assert not isinstance(headers, Refusal)
            for name, value in () if self._cors is None else self._cors.response_headers(headers):
                reply.add_header(name, value)
            await reply.json(200, gate.metadata_document(scope, headers))
        else:
            status = {"status": "ending" if self._stopping else "ok", **self._exchanges.health()}
            await reply.json(503 if self._stopping else 200, codec.encode(status))


def _address(client: tuple[str, int] | None, headers: Headers) -> str:
    """Where a request comes from; a proxy on this machine is believed about whom it forwards for."""
    host = client[0] if client else ""
    forwarded = headers.get(b"x-forwarded-for")
    if forwarded is None or host not in _LOCAL:
        return host
    return forwarded.rpartition(b",")[2].strip().decode("latin-1") or host


def _below(scope: Scope) -> str:
    """The path below where the application is mounted, without a slash at its end."""
    return _path(scope).rstrip("/") or "/"


def _path(scope: Scope) -> str:
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    return path[len(root) :] if root and path.startswith(root) else path


def _make_gate(
    server: Server, settings: Settings, exchanges: Exchanges, relay: SessionRelay | None
) -> Authenticator | None:
    if server.auth is None:
        return None
    from dovetail.server.auth.authenticator import Authenticator
    from dovetail.server.auth.dpop_replay import FileReplayCache, StoreReplayCache

    proofs = None
    if settings.store is not None:
        proofs = StoreReplayCache(lambda: exchanges.store)
    elif relay is not None:
        proofs = FileReplayCache(relay.shared_file("proofs"))
    return Authenticator(server.auth, settings.path, settings.resource, proofs)


def make_endpoint(server: Server, options: Any) -> Endpoint:
    """The application for these options."""
    return Endpoint(server, Settings.of(options))
