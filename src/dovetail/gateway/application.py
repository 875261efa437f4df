"""The ASGI application of a gateway: all servers at one path, each of them and each profile at paths below it.

`/status` and `/metrics` tell how the servers are; where the gateway has authentication they need a token too, and where
it names groups for them, a caller in one of these. Each view has a URL of its own, which tokens may be issued for.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, unquote

import msgspec

from dovetail.protocol.errors import INVALID_REQUEST, LocalError
from dovetail.protocol.request_guard import Refusal
from dovetail.server.http.asgi_app import AsgiApp, Page
from dovetail.wire import codec

from .access_control.inbound import ViewEndpoint, has_group
from .accounts.serve import account_pages
from .status_page import status_page

if TYPE_CHECKING:
    from dovetail.server.http.options import Settings
    from dovetail.server.http.request import HttpRequest
    from dovetail.transports.http.server.asgi import Receive, Scope, Send

    from .core import GatewayCore
    from .state import GatewayState

logger = logging.getLogger("dovetail")

MAX_VIEWS = 1000
"""Views that are served at paths of their own."""

_RESOURCE_METADATA = [".well-known", "oauth-protected-resource"]
"""Stands before the path of a view in the URL of its protected resource metadata (RFC 9728, section 3.1)."""

_SAFE = "!$&'()*+,;=:@"
"""Characters that a segment of a path may have as they are, besides letters, digits and `-._~` (RFC 3986, 3.3)."""


class _Found(NamedTuple):
    """A view, its path below the endpoint in the one form that it has in URLs, and what the request has around it."""

    view: str
    path: str
    before: str
    after: str


class GatewayApp:
    """Sends each request to the view of the gateway that its path names."""

    def __init__(
        self, state: GatewayState, settings: Settings, bound_host: str | None = None, *, ephemeral: bool = False
    ) -> None:
        self._state = state
        self._settings = settings
        self._host = bound_host
        self._ephemeral = ephemeral
        if state.settings.status_groups and state.verifier is None:
            raise LocalError("status_groups need authentication of callers: pass auth=, which knows their groups")
        pages = {"/status": Page(self._status), "/metrics": Page(self._metrics)}
        pages |= account_pages(state, settings, lambda: self._main.store)
        main = self._core(ViewEndpoint(settings.path, settings.resource))
        self._main = AsgiApp(main, settings, bound_host, ephemeral=ephemeral, pages=pages)
        self._views: dict[tuple[str, str], AsgiApp] = {}
        """By view and path: a name with slashes has two paths."""
        state.close_views.append(self._close_view)
        self._below = settings.path.rstrip("/") + "/"

    def _core(self, view: ViewEndpoint) -> GatewayCore:
        """A view, with the verifier of the tokens that were issued for it."""
        core, verifier = self._state.view(view.view), self._state.verifier
        if verifier is not None:
            # The application that is made of it next takes it over: a view with two paths has two verifiers.
            own = core.auth = verifier.for_view(view)
            if verifier.audience and not own.audience and not view.view:
                logger.warning("No token is accepted at %s, because all audiences are URLs of views", view.endpoint)
        return core

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, one WebSocket, or the lifespan."""
        if scope["type"] == "lifespan":
            await self._main(scope, receive, functools.partial(self._send_lifespan, send))
            return
        self._state.start()
        view = self._view_of(scope)
        await (self._main if view is None else view)(scope, receive, send)

    async def _send_lifespan(self, send: Send, message: MutableMapping[str, Any]) -> None:
        """Close the views and all connections before the host is told that the shutdown is complete."""
        if message["type"] == "lifespan.shutdown.complete":
            await self._close_views(0)
            await self._state.close()
        await send(message)

    def stop(self, grace: float = 5.0) -> None:
        """Accept nothing new; calls have the grace period to finish."""
        for app in (self._main, *self._views.values()):
            app.stop(grace)

    async def close(self, grace: float = 5.0) -> None:
        """Shut down, and disconnect from all servers."""
        await asyncio.gather(self._main.close(grace), self._close_views(grace))
        await self._state.close()

    async def _close_views(self, grace: float) -> None:
        await asyncio.gather(*(app.close(grace) for app in self._views.values()))

    def _view_of(self, scope: Scope) -> AsgiApp | None:
        """The application of `/mcp/server/NAME` or `/mcp/profile/NAME`, made when it is first asked for."""
        found = self._find_view(scope)
        if found is None:
            return None
        view, path, before, after = found
        app = self._views.get((view, path))
        if app is None:
            if len(self._views) >= MAX_VIEWS:
                return None
            resource = self._settings.resource
            settings = msgspec.structs.replace(
                self._settings,
                path=self._below + path,
                resource=None if resource is None else f"{resource.rstrip('/')}/{path}",
                health=None,
                legacy_sse=False,
            )
            endpoint = ViewEndpoint(self._settings.path, resource, view, (path, *_paths(view)))
            app = AsgiApp(self._core(endpoint), settings, self._host, ephemeral=self._ephemeral)
            self._views[view, path] = app
        # As its application knows the path: encoded, so that a name with a slash is one segment in all URLs.
        scope["path"] = before + self._below + path + after
        return app

    def _find_view(self, scope: Scope) -> _Found | None:
        """The view that a path leads to, if there is one."""
        path: str = scope["path"]
        if self._below not in path:
            return None  # the endpoint of all servers, without a closer look
        root, segments = _segments(scope)
        before = root
        if segments[: len(_RESOURCE_METADATA)] == _RESOURCE_METADATA:
            before = "/".join((root, *_RESOURCE_METADATA))
            segments = segments[len(_RESOURCE_METADATA) :]
        endpoint = [part for part in self._below.split("/") if part]
        kind, *name = segments[len(endpoint) :] or [""]
        if segments[: len(endpoint)] != endpoint or not name:
            return None
        after = ""
        if scope["type"] == "websocket":
            if name.pop() != "ws":
                return None
            after = "/ws"
        # A name with slashes is one encoded segment, or as many segments as it has parts. No mixtures of both: each
        # form has an application of its own, so that metadata name the URL that the client has.
        if len(name) > 1 and any("/" in part for part in name):
            return None
        view = f"{kind}/{'/'.join(name)}"
        if not any(name) or not self._state.has_view(view):
            return None
        return _Found(view, "/".join((kind, *(quote(part, safe=_SAFE) for part in name))), before, after)

    async def _close_view(self, view: str) -> None:
        """Close what serves a view that was removed; calls have the grace period to finish."""
        gone = [key for key in self._views if key[0] == view]
        await asyncio.gather(*(app.close() for app in [self._views.pop(key) for key in gone]))

    async def _status(self, request: HttpRequest) -> None:
        if not await self._may_read_status(request):
            return
        status = self._state.status()
        if b"text/html" in request.headers.get(b"accept", b""):
            request.response.add_header(b"content-security-policy", b"default-src 'none'; style-src 'unsafe-inline'")
            await request.response.html(200, status_page(status))
        else:
            await request.response.json(200, codec.encode(status))

    async def _metrics(self, request: HttpRequest) -> None:
        if await self._may_read_status(request):
            await request.response.text(200, self._state.metrics_text())

    async def _may_read_status(self, request: HttpRequest) -> bool:
        """True if the caller may read how the servers are; others get a 403."""
        groups = self._state.settings.status_groups
        if not groups or has_group(request.principal, groups):
            return True
        await request.refuse(Refusal(403, INVALID_REQUEST, "Forbidden: this is for some groups of callers only"))
        return False


def _paths(view: str) -> tuple[str, ...]:
    """The paths of a view below the endpoint: its name as one segment, and with its slashes."""
    kind, _, name = view.partition("/")
    return tuple(f"{kind}/{quote(name, safe=safe)}" for safe in (_SAFE, _SAFE + "/"))


def _segments(scope: Scope) -> tuple[str, list[str]]:
    """The root path of the application, and the segments of the path below it, each of them decoded by itself.

    The decoded path does not tell a slash within a segment (%2F) from one between two of them. Where the ASGI server
    does not say how the path was encoded, each slash is one between segments.
    """
    path: str = scope["path"]
    root: str = scope.get("root_path", "").rstrip("/")
    raw: bytes = scope.get("raw_path") or b""
    segments = [unquote(part) for part in raw.partition(b"?")[0].decode("latin-1").split("/")]
    if "/".join(segments) != path:
        segments = path.split("/")
    while len(segments) > 1 and segments[-1] == "":
        segments.pop()
    # Some ASGI servers have the root path in the path, others do not.
    for number in range(1, len(segments)):
        if "/".join(segments[:number]) == root:
            return root, segments[number:]
    return "", segments[1:]
