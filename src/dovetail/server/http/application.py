"""Contract of the ASGI applications that can be run: a server, or several at one address, as a gateway has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from dovetail.server.core import ServerCore
    from dovetail.server.http.options import Settings
    from dovetail.transports.http.server.asgi import Receive, Scope, Send


class Application(Protocol):
    """An ASGI application that can be stopped gracefully."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, WebSocket or lifespan."""
        ...

    def stop(self, grace: float = ...) -> None:
        """Accept nothing new; calls have the grace period to finish."""
        ...

    async def close(self, grace: float = ...) -> None:
        """Wait until everything has ended, which the grace period bounds."""
        ...


def application_of(
    core: ServerCore, settings: Settings, bound_host: str | None = None, *, ephemeral: bool = False
) -> Application:
    """The ASGI application of a server; `ephemeral` is true if the store is of no use to a later run."""
    if core.make_application is not None:
        return core.make_application(settings, bound_host, ephemeral=ephemeral)
    from .asgi_app import AsgiApp

    return AsgiApp(core, settings, bound_host, ephemeral=ephemeral)
