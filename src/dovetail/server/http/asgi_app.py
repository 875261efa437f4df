"""The ASGI application of a server: routes, request guard, authentication, and the endpoints besides MCP."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from dovetail.protocol.cors import Cors
from dovetail.protocol.errors import INTERNAL_ERROR
from dovetail.protocol.request_guard import Refusal, RequestGuard
from dovetail.transports.http.server.asgi import ClientGone, Receive, Scope, Send
from dovetail.transports.http.server.response import WRITE_JSON, HttpResponse
from dovetail.wire import codec

from .access_log import REQUEST_ID, AccessLogEntry
from .options import Settings
from .request import HttpRequest
from .router import HttpRouter

if TYPE_CHECKING:
    from dovetail.server.auth.authenticator import AuthenticatedCaller, Authenticator
    from dovetail.server.core import ServerCore
    from dovetail.server.run.session_relay import SessionRelay

logger = logging.getLogger("dovetail")

Handler: TypeAlias = Callable[[HttpRequest], Awaitable[None]]

_ENDING = Refusal(503, INTERNAL_ERROR, "The server is ending", headers=((b"connection", b"close"),))


class Route(NamedTuple):
    """A path of the application: the checks of its requests, and the handler."""

    guard: RequestGuard
    handler: Handler


class AsgiApp:
    """One server as an ASGI application; it needs no lifespan, and uses one where there is one."""

    def __init__(
        self, core: ServerCore, settings: Settings, bound_host: str | None = None, relay: SessionRelay | None = None
    ) -> None:
        self._settings = settings
        self._relay = relay
        self._router = HttpRouter(core, settings, "" if relay is None else relay.prefix)
        self._authenticator = _make_authenticator(core, settings, self._router, relay)
        self._cors = Cors.build(settings.cors)
        self._unavailable: Refusal | None = None
        """The refusal of every request, once the server shuts down."""
        self.bind(bound_host)

    def bind(self, host: str | None) -> None:
        """Allow requests that name the host that is listened on."""
        settings = self._settings
        self._guard = RequestGuard.build(
            allowed_hosts=settings.allowed_hosts,
            allowed_origins=settings.allowed_origins,
            cors=settings.cors,
            bound=host,
            methods=self._router.methods,
            max_body=settings.max_body,
        )
        self._routes = self._make_routes()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request, one WebSocket, or the application's lifespan."""
        if (scope["type"] != "http" or self._relay is not None) and await self._serve_other(scope, receive, send):
            return
        path: str = scope["path"]
        # Taken out of the scope, which it refers to: left there, each request would be a reference cycle.
        response = HttpResponse(send, scope.pop(WRITE_JSON, None))
        entry = AccessLogEntry()
        try:
            route = self._routes.get(path)
            if route is None or scope.get("root_path"):
                path = _path(scope)
                route = self._routes.get(path)
            if route is None:
                await self._serve_metadata(scope, path, receive, response)
                return
            headers = route.guard.headers(scope["headers"])
            if isinstance(headers, Refusal):
                await HttpRequest(scope, {}, receive, response).refuse(headers)
                return
            request = HttpRequest(scope, headers, receive, response)
            entry.request = request
            if REQUEST_ID in headers:
                entry.use_client_id(request)
            if self._cors is not None and await self._preflight(self._cors, route.guard, request):
                return
            refusal = route.guard.check(request.method, headers) or self._unavailable
            if refusal is None and self._authenticator is not None:
                refusal = await self._authenticate(self._authenticator, request)
            await (route.handler(request) if refusal is None else request.refuse(refusal))
        except ClientGone:
            pass
        except asyncio.CancelledError:
            # The process that runs the application ends and has said so already; a traceback would add nothing.
            response.gone = True
        except Exception:
            logger.exception("Answering %s %s failed", scope["method"], path)
            if not response.started:
                await response.json(500, codec.failure(None, INTERNAL_ERROR, "Internal error", null_id=True))
        finally:
            entry.end(scope, path, response)

    def stop(self, grace: float = 5.0) -> None:
        """Begin to shut down: refuse new requests, close streams, and give calls the grace period to finish."""
        self._unavailable = _ENDING
        self._router.stop(grace)

    async def close(self, grace: float = 5.0) -> None:
        """Shut down; calls that run longer than the grace period are cancelled."""
        self._unavailable = _ENDING
        await self._router.close(grace)
        if self._authenticator is not None:
            await self._authenticator.close()

    async def _authenticate(self, authenticator: Authenticator, request: HttpRequest) -> Refusal | None:
        caller = await authenticator.authenticate(request.scope, request.headers, _below_root(request.scope))
        if isinstance(caller, Refusal):
            return caller
        request.caller, request.principal = caller, caller.name
        return None

    async def _preflight(self, cors: Cors, guard: RequestGuard, request: HttpRequest) -> bool:
        """Add the CORS headers; True if the request was a preflight and has been answered."""
        if guard.check_source(request.headers) is not None:
            return False
        allowed = cors.preflight(request.headers) if request.method == "OPTIONS" else None
        for name, value in cors.response_headers(request.headers) if allowed is None else allowed:
            request.response.add_header(name, value)
        if allowed is not None:
            await request.response.empty(204)
        return allowed is not None

    async def _serve_other(self, scope: Scope, receive: Receive, send: Send) -> bool:
        """Serve what is no HTTP request, or one for another worker; False for an HTTP request to serve here."""
        kind = scope["type"]
        if kind == "http":
            return self._relay is not None and await self._relay.forward(scope, receive, send)
        if kind == "websocket":
            await self._websocket(scope, receive, send)
        elif kind == "lifespan":
            await self._lifespan(receive, send)
        else:
            raise NotImplementedError(f"Dovetail serves HTTP and WebSocket, not {kind!r}")
        return True

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        settings = self._settings
        headers = self._guard.headers(scope["headers"])
        refused = (
            not settings.websocket
            or self._unavailable is not None
            or _path(scope) != settings.path.rstrip("/") + "/ws"
            or isinstance(headers, Refusal)
            or self._guard.check_source(headers) is not None
        )
        caller: AuthenticatedCaller | Refusal | None = None
        if not refused and self._authenticator is not None:
            assert not isinstance(headers, Refusal)
            caller = await self._authenticator.authenticate(scope, headers, _below_root(scope))
            refused = isinstance(caller, Refusal)
        if refused:
            await receive()
            if isinstance(caller, Refusal) and "websocket.http.response" in scope.get("extensions", {}):
                # A client that gets the challenge can log in, as it would over HTTP.
                headers = [*caller.headers, (b"content-length", b"0")]
                await send({"type": "websocket.http.response.start", "status": caller.status, "headers": headers})
                await send({"type": "websocket.http.response.body", "body": b""})
            else:
                await send({"type": "websocket.close", "code": 1008})
            return
        assert not isinstance(caller, Refusal)
        await self._router.websocket(receive, send, scope.get("subprotocols") or [], caller)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            await self._router.start()
        except Exception as problem:
            logger.exception("The server's lifespan failed")
            await send({"type": "lifespan.startup.failed", "message": f"{type(problem).__name__}: {problem}"})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.close()
        await send({"type": "lifespan.shutdown.complete"})

    def _make_routes(self) -> dict[str, Route]:
        settings, router, guard = self._settings, self._router, self._guard
        routes = {settings.path.rstrip("/") or "/": Route(guard, router.serve)}
        if settings.legacy_sse and router.handshake:
            routes["/sse"] = Route(guard.for_methods("GET"), router.legacy.open)
            routes["/messages"] = Route(guard.for_methods("POST"), router.legacy_message)
        return routes

    async def _serve_metadata(self, scope: Scope, path: str, receive: Receive, response: HttpResponse) -> None:
        """Serve /health and the protected-resource metadata; no token is needed, Host and Origin are checked."""
        authenticator = self._authenticator
        if authenticator is not None and path not in authenticator.metadata_paths:
            authenticator = None
        if path != self._settings.health and authenticator is None:
            await response.text(404, f"There is nothing at {path}; the MCP endpoint is at {self._settings.path}\n")
            return
        headers = self._guard.headers(scope["headers"])
        refusal = headers if isinstance(headers, Refusal) else self._guard.check_source(headers)
        if refusal is not None:
            await response.text(refusal.status, refusal.message + "\n")
            return
        assert not isinstance(headers, Refusal)
        if authenticator is not None and self._cors is not None and scope["method"] == "OPTIONS":
            request = HttpRequest(scope, headers, receive, response)
            await self._preflight(self._cors, self._guard.for_methods("GET"), request)
        elif scope["method"] not in {"GET", "HEAD"}:
            response.add_header(b"allow", b"GET, HEAD")
            await response.empty(405)
        elif authenticator is not None:
            for name, value in () if self._cors is None else self._cors.response_headers(headers):
                response.add_header(name, value)
            await response.json(200, authenticator.metadata_document(scope, headers))
        else:
            ending = self._unavailable is not None
            status = {"status": "ending" if ending else "ok", **self._router.health()}
            await response.json(503 if ending else 200, codec.encode(status))


def _path(scope: Scope) -> str:
    """The path below where the application is mounted, without a slash at its end."""
    return _below_root(scope).rstrip("/") or "/"


def _below_root(scope: Scope) -> str:
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    return path[len(root) :] if root and path.startswith(root) else path


def _make_authenticator(
    core: ServerCore, settings: Settings, router: HttpRouter, relay: SessionRelay | None
) -> Authenticator | None:
    if core.auth is None:
        return None
    from dovetail.server.auth.authenticator import Authenticator
    from dovetail.server.auth.dpop_replay import FileReplayCache, StoreReplayCache

    replay_cache = None
    if settings.store is not None:
        replay_cache = StoreReplayCache(lambda: router.store)
    elif relay is not None:
        replay_cache = FileReplayCache(relay.shared_file("proofs"))
    return Authenticator(core.auth, settings.path, settings.resource, replay_cache)
