"""The ASGI application of a server: routes, request guard, authentication, and the endpoints besides MCP."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from dovetail.protocol.client_address import TrustedProxies, client_key
from dovetail.protocol.cors import Cors
from dovetail.protocol.errors import INTERNAL_ERROR
from dovetail.protocol.request_guard import Refusal, RequestGuard
from dovetail.runtime.serve import STORE_FAILED
from dovetail.storage.contract import Store, StoreError
from dovetail.transports.http.server.asgi import ClientGone, Receive, Scope, Send
from dovetail.transports.http.server.response import WRITE_MESSAGE, HttpResponse
from dovetail.wire import codec

from .access_log import REQUEST_ID, AccessLogEntry
from .options import Settings
from .request import HttpRequest, client_address
from .router import HttpRouter

if TYPE_CHECKING:
    from dovetail.server.auth.authenticator import Authenticator
    from dovetail.server.core import ServerCore

logger = logging.getLogger("dovetail")

Handler: TypeAlias = Callable[[HttpRequest], Awaitable[None]]

_TRY_AGAIN_LATER = 1013
_LONGEST_REASON = 100
"""The code and the longest reason of a WebSocket that is closed because there are too many (RFC 6455, 5.5.1)."""

_STORE_FAILED = Refusal(503, INTERNAL_ERROR, STORE_FAILED, headers=((b"retry-after", b"1"),))
_ENDING = Refusal(503, INTERNAL_ERROR, "The server is ending", headers=((b"connection", b"close"),))


class Route(NamedTuple):
    """A path of the application: the checks of its requests, and the handler."""

    guard: RequestGuard
    handler: Handler
    needs_token: bool = True
    """False for a page that authenticates its users in another way."""


class Page(NamedTuple):
    """A page besides the endpoint: its handler, and the HTTP methods of its requests; a POST sends a form."""

    handler: Handler
    methods: tuple[str, ...] = ("GET",)
    needs_token: bool = True


class AsgiApp:
    """One server as an ASGI application; it needs no lifespan, and uses one where there is one."""

    def __init__(
        self,
        core: ServerCore,
        settings: Settings,
        bound_host: str | None = None,
        *,
        ephemeral: bool = False,
        pages: Mapping[str, Page] | None = None,
    ) -> None:
        """`ephemeral` is true if the store is of no use to a later run; `pages` are further paths."""
        self._settings = settings
        self._pages = pages or {}
        self._router = HttpRouter(core, settings, ephemeral=ephemeral)
        self._authenticator = _make_authenticator(core, settings, self._router)
        self._cors = Cors.build(settings.cors)
        self._proxies = TrustedProxies.build(settings.trusted_proxies)
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
        if scope["type"] != "http":
            await self._serve_other(scope, receive, send)
            return
        path: str = scope["path"]
        # Taken out of the scope, which it refers to: left there, each request would be a reference cycle.
        response = HttpResponse(send, scope.pop(WRITE_MESSAGE, None))
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
                await HttpRequest(scope, {}, receive, response, self._proxies).refuse(headers)
                return
            request = HttpRequest(scope, headers, receive, response, self._proxies)
            entry.request = request
            if REQUEST_ID in headers:
                entry.use_client_id(request)
            if self._cors is not None and await self._preflight(self._cors, route.guard, request):
                return
            refusal = route.guard.check(request.method, headers) or self._unavailable
            if refusal is None and self._authenticator is not None and route.needs_token:
                refusal = await self._authenticate(self._authenticator, request)
            await (route.handler(request) if refusal is None else request.refuse(refusal))
        except ClientGone:
            pass
        except asyncio.CancelledError:
            # The process that runs the application ends and has said so already; a traceback would add nothing.
            response.gone = True
        except Exception as problem:
            await _respond_to_failure(problem, f"Answering {scope['method']} {path} failed", entry.request, response)
        finally:
            entry.end(scope, path, response)

    @property
    def store(self) -> Store:
        """The store that was given, or one in memory."""
        return self._router.store

    def stop(self, grace: float = 5.0) -> None:
        """Begin to shut down: refuse new requests, close streams, and give calls the grace period to finish."""
        self._unavailable = _ENDING
        self._router.stop(grace)

    async def close(self, grace: float = 5.0) -> None:
        """Shut down; calls that run longer than the grace period are cancelled."""
        self._unavailable = _ENDING
        if self._authenticator is not None:
            await self._authenticator.close()
        await self._router.close(grace)

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

    async def _serve_other(self, scope: Scope, receive: Receive, send: Send) -> None:
        kind = scope["type"]
        if kind == "websocket":
            await self._websocket(scope, receive, send)
        elif kind == "lifespan":
            await self._lifespan(receive, send)
        else:
            raise NotImplementedError(f"Dovetail serves HTTP and WebSocket, not {kind!r}")

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        settings = self._settings
        headers = self._guard.headers(scope["headers"])
        if (
            not settings.websocket
            or _path(scope) != settings.path.rstrip("/") + "/ws"
            or isinstance(headers, Refusal)
            or self._guard.check_source(headers) is not None
        ):
            await receive()
            await send({"type": "websocket.close", "code": 1008})
            return
        refusal, caller = self._unavailable, None
        if refusal is None and self._authenticator is not None:
            found = await self._authenticator.authenticate(scope, headers, _below_root(scope))
            refusal, caller = (found, None) if isinstance(found, Refusal) else (None, found)
        limit = self._router.legacy.limit
        key = client_key(None if caller is None else caller.name, client_address(scope, headers, self._proxies))
        refusal = refusal or limit.admit(key)
        if refusal is not None:
            await _refuse_websocket(refusal, scope, receive, send)
            return
        try:
            await self._router.websocket(receive, send, scope.get("subprotocols") or [], caller, key)
        finally:
            limit.release(key)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            await self._router.start()
        except StoreError as problem:
            await send({"type": "lifespan.startup.failed", "message": str(problem)})
            return
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
            routes["/sse"] = Route(guard.for_methods("GET"), router.legacy_open)
            routes["/messages"] = Route(guard.for_methods("POST"), router.legacy_message)
        for path, page in self._pages.items():
            routes[path] = Route(guard.for_pages(*page.methods), page.handler, page.needs_token)
        return routes

    async def _serve_metadata(self, scope: Scope, path: str, receive: Receive, response: HttpResponse) -> None:
        """Serve /health and the protected-resource metadata; no token is needed, Host and Origin are checked."""
        authenticator = self._authenticator
        if authenticator is not None and path not in authenticator.metadata_paths:
            authenticator = None
        if path != self._settings.health and authenticator is None:
            # Below a mount, the paths as the client sees them.
            mount = str(scope.get("root_path") or "").rstrip("/")
            endpoint = f"{mount}{self._settings.path}"
            await response.text(404, f"There is nothing at {mount}{path}; the MCP endpoint is at {endpoint}\n")
            return
        headers = self._guard.headers(scope["headers"])
        refusal = headers if isinstance(headers, Refusal) else self._guard.check_source(headers)
        if refusal is not None:
            await response.text(refusal.status, refusal.message + "\n")
            return
        assert not isinstance(headers, Refusal)
        if authenticator is not None and self._cors is not None and scope["method"] == "OPTIONS":
            request = HttpRequest(scope, headers, receive, response, self._proxies)
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


async def _respond_to_failure(
    problem: Exception, description: str, request: HttpRequest | None, response: HttpResponse
) -> None:
    """Log an exception that nothing has handled, and answer with an error if no response has begun."""
    if isinstance(problem, StoreError):
        logger.error("%s: %s", description, problem)
        if request is not None and not response.started:
            await request.refuse(_STORE_FAILED, request.message_id)
        return
    logger.error("%s", description, exc_info=problem)
    if not response.started:
        await response.message(500, codec.failure(None, INTERNAL_ERROR, "Internal error", null_id=True))


async def _refuse_websocket(refusal: Refusal, scope: Scope, receive: Receive, send: Send) -> None:
    """Refuse a WebSocket with an HTTP response, where the ASGI server can send one.

    A client that gets the challenge of a 401 can log in, and one that gets a 503 can try again, as over HTTP.
    """
    await receive()
    if "websocket.http.response" in scope.get("extensions", {}):
        headers = [*refusal.headers, (b"content-length", b"0")]
        await send({"type": "websocket.http.response.start", "status": refusal.status, "headers": headers})
        await send({"type": "websocket.http.response.body", "body": b""})
    elif refusal.status == 503:
        # Closed before it is accepted, it would be a 403, which tells the client that it may never connect.
        await send({"type": "websocket.accept"})
        await send({"type": "websocket.close", "code": _TRY_AGAIN_LATER, "reason": refusal.message[:_LONGEST_REASON]})
    else:
        await send({"type": "websocket.close", "code": 1008})


def _path(scope: Scope) -> str:
    """The path below where the application is mounted, without a slash at its end."""
    return _below_root(scope).rstrip("/") or "/"


def _below_root(scope: Scope) -> str:
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    return path[len(root) :] if root and path.startswith(root) else path


def _make_authenticator(core: ServerCore, settings: Settings, router: HttpRouter) -> Authenticator | None:
    if core.auth is None:
        return None
    from dovetail.server.auth.authenticator import Authenticator
    from dovetail.server.auth.dpop_replay import ReplayCache

    core.revoked_tokens.use_store(lambda: router.common_store)
    replay_cache = ReplayCache(lambda: router.common_store)
    return Authenticator(core.auth, settings.path, settings.resource, replay_cache, core.revoked_tokens)
