"""The ASGI application of a gateway: all servers at one path, each of them and each profile at paths below it.

`/status` and `/metrics` tell how the servers are; where the gateway has authentication they need a token too.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import msgspec

from dovetail.server.http.asgi_app import AsgiApp, Page
from dovetail.wire import codec

from .accounts.serve import account_pages
from .status_page import status_page

if TYPE_CHECKING:
    from dovetail.server.http.options import Settings
    from dovetail.server.http.request import HttpRequest
    from dovetail.transports.http.server.asgi import Receive, Scope, Send

    from .state import GatewayState

MAX_VIEWS = 1000
"""Views that are served at paths of their own."""

_RESOURCE_METADATA = "/.well-known/oauth-protected-resource"
"""Stands before the path of a view in the URL of its protected resource metadata (RFC 9728, section 3.1)."""


class GatewayApp:
    """Sends each request to the view of the gateway that its path names."""

    def __init__(
        self, state: GatewayState, settings: Settings, bound_host: str | None = None, *, ephemeral: bool = False
    ) -> None:
        self._state = state
        self._settings = settings
        self._host = bound_host
        self._ephemeral = ephemeral
        pages = {"/status": Page(self._status), "/metrics": Page(self._metrics)}
        pages |= account_pages(state, settings, lambda: self._main.store)
        self._main = AsgiApp(state.view(""), settings, bound_host, ephemeral=ephemeral, pages=pages)
        self._views: dict[str, AsgiApp] = {}
        self._below = settings.path.rstrip("/") + "/"

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
        path: str = scope["path"]
        root: str = scope.get("root_path", "")
        path = path[len(root) :] if root and path.startswith(root) else path
        if path.startswith(_RESOURCE_METADATA + self._below):
            path = path.removeprefix(_RESOURCE_METADATA)
        if not path.startswith(self._below):
            return None
        kind, _, rest = path[len(self._below) :].partition("/")
        name = rest.partition("/")[0]
        view = f"{kind}/{unquote(name)}"
        if not name or not self._state.has_view(view):
            return None
        found = self._views.get(view)
        if found is None:
            if len(self._views) >= MAX_VIEWS:
                return None
            resource = self._settings.resource
            settings = msgspec.structs.replace(
                self._settings,
                path=f"{self._below}{kind}/{name}",
                resource=None if resource is None else f"{resource.rstrip('/')}/{kind}/{name}",
                health=None,
                legacy_sse=False,
            )
            found = self._views[view] = AsgiApp(self._state.view(view), settings, self._host, ephemeral=self._ephemeral)
        return found

    async def _status(self, request: HttpRequest) -> None:
        status = self._state.status()
        if b"text/html" in request.headers.get(b"accept", b""):
            request.response.add_header(b"content-security-policy", b"default-src 'none'; style-src 'unsafe-inline'")
            await request.response.html(200, status_page(status))
        else:
            await request.response.json(200, codec.encode(status))

    async def _metrics(self, request: HttpRequest) -> None:
        await request.response.text(200, self._state.metrics_text())
