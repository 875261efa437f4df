"""`Gateway`: many servers of any revision behind one endpoint, for clients of any revision."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

from dovetail.client.targets.resolve import Target, resolve_target
from dovetail.transports.base import Channel

from .settings import GatewaySettings, Profile, ServerSettings
from .state import GatewayState, ServerDefinition

if TYPE_CHECKING:
    from dovetail.client.targets.contract import ServerTarget
    from dovetail.runtime.middleware import Middleware
    from dovetail.server.app import HttpName
    from dovetail.server.core import Verify
    from dovetail.server.http.application import Application
    from dovetail.server.http.options import AsgiOptions
    from dovetail.server.run.http import RunOptions

    from .config_source import ConfigSource


class GatewayOptions(TypedDict, total=False):
    """Options of a gateway for its clients."""

    auth: Verify | None
    """A verifier of tokens, as of `Server`."""
    middleware: Sequence[Middleware]
    state_keys: Sequence[bytes]


class Gateway:
    """Joins servers: `Gateway({"notes": "python notes.py", "web": "https://example.com/mcp"}).run("http")`.

    Tools and prompts are called `server__name`. Servers are connected to when they are first needed.
    """

    def __init__(
        self,
        servers: Mapping[str, Target],
        *,
        name: str = "gateway",
        title: str | None = None,
        instructions: str | None = None,
        settings: Mapping[str, ServerSettings] | None = None,
        profiles: Mapping[str, Profile] | None = None,
        **options: Unpack[GatewayOptions],
    ) -> None:
        """Prepare a gateway for servers by name; each is what `Client` connects to.

        Options:
            name: The name of the gateway.
            title: A name for display.
            instructions: Instructions for models, before those of the servers.
            settings: Timeouts and sharing of connections, by server.
            profiles: Named choices of servers and tools, each served at a path of its own.
            auth: A `Verifier`, or a function that returns the owner of a token, as for a server.
            middleware: Middleware around the requests of clients.
            state_keys: Keys that seal the states of calls.
        """
        given = settings or {}
        definitions = {
            key: ServerDefinition(make_target=_resolver(target), settings=given.get(key) or ServerSettings())
            for key, target in servers.items()
        }
        own = GatewaySettings(name=name, title=title, instructions=instructions, profiles=dict(profiles or {}))
        self._state = _state(definitions, own, options, None)

    @classmethod
    def from_config(
        cls, *paths: str | os.PathLike[str], trust: bool = False, **options: Unpack[GatewayOptions]
    ) -> Gateway:
        """A gateway for the servers of configuration files, which are read again when they change.

        Only launches that the user has approved are started; `trust` approves those of the files as they are now.
        """
        from .config_source import ConfigSource
        from .launches import Launches

        source = ConfigSource(paths, Launches(), trust=trust)
        gateway = cls.__new__(cls)
        gateway._state = _state(source.servers(), source.settings(), options, source)
        return gateway

    @property
    def status(self) -> dict[str, Any]:
        """The state of each server, as `/status` returns it."""
        return self._state.status()

    def run(
        self, transport: Literal["stdio"] | HttpName = "stdio", *, grace: float = 5.0, **options: Unpack[RunOptions]
    ) -> None:
        """Serve until a signal says to end: over stdio, as one server for one client, or "http", at `/mcp`.

        Options are those of `Server.run`.
        """
        from dovetail.server.run.transport_names import resolve_transport

        core = self._state.view("")
        if resolve_transport(transport, options) == "http":
            from dovetail.server.run.http import run_http

            run_http(core, grace=grace, **options)
        else:
            from dovetail.server.run.stdio import run_stdio

            run_stdio(core, grace)

    def asgi(self, **options: Unpack[AsgiOptions]) -> Application:
        """The gateway as an ASGI application."""
        from dovetail.server.http.options import Settings

        return self._state.make_application(Settings.of(options))

    async def serve(self, channel: Channel, *, grace: float = 5.0) -> None:
        """Serve one client over a channel until it goes."""
        from dovetail.server.connection import ConnectionRunner

        await ConnectionRunner(self._state.view(""), channel, grace).run()

    async def update(self, servers: Mapping[str, Target]) -> None:
        """Use these servers from now on; clients are notified. Connections to others are closed."""
        await self._state.update({key: ServerDefinition(make_target=_resolver(one)) for key, one in servers.items()})

    async def close(self) -> None:
        """Disconnect from all servers."""
        await self._state.close()


def _state(
    servers: Mapping[str, ServerDefinition],
    settings: GatewaySettings,
    options: GatewayOptions,
    source: ConfigSource | None,
) -> GatewayState:
    from dovetail import __version__

    return GatewayState(servers, settings, __version__, options, source)


def _resolver(target: Target) -> Any:
    async def make_target() -> ServerTarget:
        return resolve_target(target)

    return make_target
