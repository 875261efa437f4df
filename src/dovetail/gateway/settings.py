"""Settings of a gateway: limits for each server, and profiles, as the configuration file has them."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any, cast

import msgspec

from dovetail.protocol.errors import LocalError

SERVERS_META = "dovetail/servers"
"""Key in the `_meta` of a list: the servers whose part is missing or old, and why."""


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Options of one server behind a gateway; in the file they stand under `gateway` of the server."""

    shared: bool = False
    """One connection for all clients, also where the server keeps state for each connection."""
    timeout: float = 60
    """Seconds to wait for an answer; progress extends them."""
    max_timeout: float = 600
    """Seconds up to which progress extends the timeout."""
    connect_seconds: float = 20
    """Seconds to wait for a server to start or to be reached."""
    list_seconds: float = 5
    """Seconds that a list waits for this server; what it offers is then missing from the list."""
    idle_seconds: float = 900
    """Seconds after which an unused connection is closed."""
    grace_seconds: float = 60
    """Seconds for which the tools of a server that fails stay in the lists."""


class Profile(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A named choice of servers and tools, served at a path of its own."""

    servers: tuple[str, ...] = ("*",)
    """The keys of servers, or patterns such as `git*`."""
    tools: tuple[str, ...] = ("*",)
    """The names of tools with their server, or patterns such as `git__read_*`."""
    exclude: tuple[str, ...] = ()
    """Tools, prompts or resources of these patterns are left out."""

    def has_server(self, key: str) -> bool:
        """True if the profile has a server."""
        return any(fnmatchcase(key, pattern) for pattern in self.servers)

    def has_tool(self, name: str) -> bool:
        """True if the profile has a tool, by its name with its server."""
        if any(fnmatchcase(name, pattern) for pattern in self.exclude):
            return False
        return any(fnmatchcase(name, pattern) for pattern in self.tools)

    def has_other(self, name: str) -> bool:
        """True if the profile has a prompt, by its name with its server, or a resource, by its URI."""
        return not any(fnmatchcase(name, pattern) for pattern in self.exclude)


class GatewaySettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Options of a gateway; in the file they stand under `gateway`."""

    name: str = "gateway"
    title: str | None = None
    instructions: str | None = None
    profiles: Mapping[str, Profile] = {}


def read_settings(kind: type[Any], value: object, place: str) -> Any:
    """Settings from JSON values; `LocalError` names the place and what is wrong."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as problem:
        raise LocalError(f"{place}: {problem}") from None


def server_settings(value: Mapping[str, Any], place: str) -> ServerSettings:
    """The settings of one server, from its entry in the file: those under `gateway`, and `shared` beside them."""
    given = value.get("gateway")
    fields: dict[str, Any] = dict(cast("dict[str, Any]", given)) if isinstance(given, dict) else {}
    if "shared" in value:
        fields["shared"] = value["shared"]
    settings: ServerSettings = read_settings(ServerSettings, fields, place)
    return settings
