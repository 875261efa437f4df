"""`Gateway`: many servers of any revision behind one endpoint, for clients of any revision."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

import msgspec

from dovetail.client.targets.configured import launch_of
from dovetail.client.targets.http import HttpSettings
from dovetail.client.targets.resolve import Target, resolve_target, web_target
from dovetail.config.entries import ServerEntry
from dovetail.protocol.errors import LocalError
from dovetail.transports.base import Channel

from .servers.credentials import ServerDefinition
from .settings import AccountSettings, GatewaySettings, Profile, SearchLimits, ServerSettings
from .state import GatewayState
from .unknown_names import unknown_names

if TYPE_CHECKING:
    from dovetail.client.targets.contract import ServerTarget
    from dovetail.policy.audit.log import Audit
    from dovetail.policy.rules import Policy
    from dovetail.runtime.middleware import Middleware
    from dovetail.server.app import HttpName
    from dovetail.server.core import Verify
    from dovetail.server.http.application import Application
    from dovetail.server.http.options import AsgiOptions
    from dovetail.server.run.http import RunOptions
    from dovetail.transports.http.contract import Auth

    from .servers.caller_upstream import AuthorizedTarget
    from .servers.config_source import ConfigSource

logger = logging.getLogger("dovetail")

_URL = re.compile(r"(https?|wss?)://", re.IGNORECASE)


class GatewayOptions(TypedDict, total=False):
    """Options of a gateway for its clients."""

    auth: Verify | None
    """A verifier of tokens, as of `Server`."""
    middleware: Sequence[Middleware]
    state_keys: Sequence[bytes]
    policy: Policy | Mapping[str, Any] | str | os.PathLike[str] | None
    """The rules, a mapping as in a policy file, or the file."""
    lockfile: str | os.PathLike[str] | None
    audit: Audit | str | os.PathLike[str] | None
    rate_limit: float | None
    burst: float | None
    group_claims: Sequence[str]
    status_groups: Sequence[str]


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
        search_above: SearchLimits | None = None,
        accounts: AccountSettings | None = None,
        **options: Unpack[GatewayOptions],
    ) -> None:
        """Prepare a gateway for servers by name; each is what `Client` connects to.

        Options:
            name: The name of the gateway.
            title: A name for display.
            instructions: Instructions for models, before those of the servers.
            settings: Timeouts and sharing of connections, by server.
            profiles: Named choices of servers and tools, each served at a path of its own.
            search_above: Limits above which clients get tools to search, describe and call the others.
            accounts: Accounts of users at servers whose credentials are of the type `user-account`.
            auth: A `Verifier`, or a function that returns the owner of a token, as for a server.
            middleware: Middleware around the requests of clients.
            state_keys: Keys that seal the states of calls.
            policy: Rules that decide on every call, prompt and resource; without any, all are allowed.
            lockfile: A lockfile; definitions that differ from it are neither listed nor used.
            audit: An audit log, or the path of its file, for every decision and outcome.
            rate_limit: Calls, prompts and resources per second for each principal.
            burst: How many of them may come at once.
            group_claims: Claims of tokens that name the groups of a caller; `groups` and `roles` by default.
            status_groups: Groups whose members read `/status` and `/metrics`; every caller does by default.
        """
        definitions = _definitions(servers, settings or {})
        own = GatewaySettings(
            name=name,
            title=title,
            instructions=instructions,
            profiles=dict(profiles or {}),
            search_above=search_above,
            accounts=accounts,
        )
        self._state = _state(definitions, own, options, None)
        for warning in unknown_names(own.profiles, self._state.access.policy, definitions):
            logger.warning("%s", warning)

    @classmethod
    def from_config(
        cls, *paths: str | os.PathLike[str], trust: bool = False, **options: Unpack[GatewayOptions]
    ) -> Gateway:
        """A gateway for the servers of configuration files, which are read again when they change.

        What is given as an option counts in place of what the files say, also after they have changed. Only launches
        that the user has approved are started; `trust` approves those of the files as they are now.
        """
        from .servers.config_source import ConfigSource
        from .servers.launches import Launches

        source = ConfigSource(paths, Launches(), trust=trust, given=options)
        gateway = cls.__new__(cls)
        settings, options["policy"] = source.gateway()
        gateway._state = _state(source.servers(), settings, options, source)
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
            from dovetail.auth.url_guard import is_loopback
            from dovetail.server.run.http import run_http

            host, port = options.get("host", "127.0.0.1"), options.get("port", 8000)
            if port and options.get("uds") is None and is_loopback(host):
                self._state.address = f"http://{host}:{port}"
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

    async def update(
        self, servers: Mapping[str, Target], *, settings: Mapping[str, ServerSettings] | None = None
    ) -> None:
        """Use these servers from now on; clients are notified. Connections to servers that have changed are closed."""
        await self._state.update(_definitions(servers, settings or {}))

    async def revoke_token(self, token: str, *, expires_at: float | None = None) -> None:
        """Refuse a token of a caller from now on, and end the streams that it opened; see `Server.revoke_token`."""
        await self._state.revoke_token(token, expires_at)

    async def close(self) -> None:
        """Disconnect from all servers."""
        await self._state.close()


def _definitions(servers: Mapping[str, Target], settings: Mapping[str, ServerSettings]) -> dict[str, ServerDefinition]:
    return {
        key: ServerDefinition(
            make_target=_resolver(target), settings=settings.get(key) or ServerSettings(), identity=(target,)
        )
        for key, target in servers.items()
    }


def _state(
    servers: Mapping[str, ServerDefinition],
    settings: GatewaySettings,
    options: GatewayOptions,
    source: ConfigSource | None,
) -> GatewayState:
    from dovetail import __version__

    from .access_control.inbound import CallerVerifier
    from .access_control.permissions import make_access

    folder = None if source is None else source.folder
    given: dict[str, Any] = {**_defaults(settings, folder), **options}
    auth = given.pop("auth", None)
    claims = tuple(given.pop("group_claims"))
    status_groups = given.pop("status_groups")
    if isinstance(status_groups, str):
        raise LocalError(f"status_groups must be a list, such as [{status_groups!r}], not a string")
    settings = msgspec.structs.replace(settings, status_groups=tuple(status_groups))
    names = ("policy", "lockfile", "audit", "rate_limit", "burst")
    access = make_access(**{name: given.pop(name) for name in names})
    core_options = {**given, "auth": None if auth is None else CallerVerifier(auth, claims)}
    return GatewayState(servers, settings, __version__, core_options, source, access)


def _defaults(settings: GatewaySettings, folder: str | None) -> dict[str, Any]:
    """Options of the configuration file, with paths from its folder."""
    from .access_control.inbound import make_verifier

    def path(name: str | None) -> str | None:
        return name if name is None or folder is None else os.path.join(folder, name)

    auth: dict[str, Any] = {} if settings.auth is None else {"auth": make_verifier(settings.auth)}
    return {
        **auth,
        "policy": settings.policy,
        "lockfile": path(settings.lockfile),
        "audit": path(settings.audit),
        "rate_limit": settings.rate_limit,
        "burst": settings.burst,
        "group_claims": settings.group_claims,
        "status_groups": settings.status_groups,
    }


def _resolver(target: Target) -> AuthorizedTarget:
    """Targets for what is given in code; a server behind a URL gets no credentials but those of its settings.

    The accounts of the user who runs the gateway are theirs, and not those of its callers.
    """

    async def make_target(auth: Auth | None) -> ServerTarget:
        if isinstance(target, ServerEntry):
            spec = launch_of(target)
            if spec.url is not None:
                return web_target(spec.url, HttpSettings(spec.headers, auth or False, None))
        if isinstance(target, str) and _URL.match(target):
            return web_target(target, HttpSettings(None, auth or False, None))
        if auth is not None:
            raise LocalError("credentials are for servers behind a URL")
        return resolve_target(target)

    return make_target
