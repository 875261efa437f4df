"""The servers and the settings of a gateway from configuration files, which are read again when they change."""

from __future__ import annotations

import asyncio
import functools
import logging
import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import msgspec

from dovetail.config.config_watch import ConfigWatch
from dovetail.config.document import BadConfig, read_document
from dovetail.config.files import home_of
from dovetail.config.jsonc import Object, plain
from dovetail.config.variables import UnresolvedVariable, VariableScope, expand, input_names
from dovetail.gateway.access_control.permissions import PolicyOption, read_policy
from dovetail.gateway.settings import (
    AT_START,
    LIVE,
    GatewaySettings,
    ServerSettings,
    read_settings,
    server_settings,
)
from dovetail.gateway.unknown_names import unknown_names
from dovetail.protocol.errors import LocalError

from .credentials import ServerDefinition
from .launches import Launches, approve_command

if TYPE_CHECKING:
    from dovetail.config.entries import ServerEntry
    from dovetail.policy.rules import Policy

logger = logging.getLogger("dovetail")

POLL_SECONDS = 1.0
"""Seconds between two looks at the files."""

_SERVER_TABLES = ("mcpServers", "servers", "mcp_servers", "context_servers", "extensions")


class GatewayPart(NamedTuple):
    """The `gateway` object of the configuration, and the rules that it names or has."""

    settings: GatewaySettings
    policy: Policy | None


class Configuration(NamedTuple):
    """The contents of the files; a part that cannot be used now is None, and what it was before still counts."""

    servers: Mapping[str, ServerDefinition] | None
    gateway: GatewayPart | None


class ConfigSource:
    """Reads configuration files into definitions of servers and settings of the gateway."""

    def __init__(
        self,
        paths: Sequence[str | os.PathLike[str]],
        launches: Launches,
        *,
        trust: bool,
        given: Mapping[str, Any] | None = None,
    ) -> None:
        """`given` are options of the gateway from code, which count in place of the settings of the files."""
        self._watch = ConfigWatch(*paths)
        self._paths = [os.path.abspath(path) for path in paths]
        self._launches = launches
        self._given = dict(given or {})
        self._values: dict[str, dict[str, Any]] = {}
        self._policy: PolicyOption = None
        self._problems: list[str] = []
        self._stamps = self._read_stamps()
        for warning in self._watch.config.warnings:
            logger.warning("%s", warning)
        if trust:
            launches.trust(self._watch.config.entries)
        else:
            self._warn_unapproved()
        self._read_values()
        part = self.gateway()
        self._started = self._latest = part.settings
        self._warn_once(self._warnings(part))

    @property
    def folder(self) -> str:
        """The folder of the first file, which paths in the settings start from."""
        return os.path.dirname(self._paths[0])

    def gateway(self) -> GatewayPart:
        """The settings of the gateway, of which one file has an object, with those given in code in their place."""
        settings, place = GatewaySettings(), self._place
        with_object = [path for path in self._paths if self._values[path].get("gateway") is not None]
        if len(with_object) > 1:
            raise LocalError(f"{' and '.join(with_object)} each have a `gateway` object: only one file may have it")
        if with_object:
            given = _filled(self._values[with_object[0]]["gateway"], place)
            settings = cast(GatewaySettings, read_settings(GatewaySettings, given, place))
        self._policy = self._policy_option(settings)
        try:
            policy = read_policy(self._policy)
        except LocalError as problem:
            if "policy" in self._given:
                raise
            raise LocalError(f"{place}: {problem}") from None
        return GatewayPart(self._with_given(settings), policy)

    @property
    def _place(self) -> str:
        """The place of the settings of the gateway, for messages."""
        path = next((path for path in self._paths if self._values[path].get("gateway") is not None), self._paths[0])
        return f"{path}, gateway"

    def servers(self) -> dict[str, ServerDefinition]:
        """The servers that are enabled."""
        options = self._server_values()
        return {
            entry.key: self._definition(entry, options.get(entry.key, {}))
            for entry in self._watch.config.entries
            if entry.enabled
        }

    async def changes(self) -> AsyncGenerator[Configuration]:
        """The contents of the files, each time that they, or the policy file, have changed."""
        while True:
            # In a thread, since a file may be large or on a drive that is slow.
            changed = await asyncio.to_thread(self._look)
            if changed is None:
                await asyncio.sleep(POLL_SECONDS)
            else:
                yield changed

    def _look(self) -> Configuration | None:
        """Look at the files; None where nothing has changed."""
        change = self._watch.check()
        known, self._stamps = self._stamps, self._read_stamps()
        if change is None and self._stamps == known:
            return None
        for warning in () if change is None else change.warnings:
            logger.warning("%s", warning)
        self._read_values()
        servers, gateway, warnings = None, None, list[str]()
        try:
            servers = self.servers()
        except LocalError as problem:
            warnings.append(f"The servers were not taken over, and those from before still count: {problem}")
        try:
            gateway = self.gateway()
            warnings += self._warnings(gateway)
        except LocalError as problem:
            warnings.append(f"The settings of the gateway from before still count, and no server is added: {problem}")
        self._warn_once(warnings)
        if gateway is not None:
            self._warn_not_taken_over(gateway.settings)
        return Configuration(servers, gateway)

    def _warn_once(self, warnings: list[str]) -> None:
        """Log what was not said when the files were read before."""
        before, self._problems = self._problems, warnings
        for text in warnings:
            if text not in before:
                logger.warning("%s", text)

    def _warn_not_taken_over(self, settings: GatewaySettings) -> None:
        """Log which changed settings wait for the next start of the gateway."""
        before, self._latest = self._latest, settings
        changed = [
            field.encode_name
            for field in msgspec.structs.fields(GatewaySettings)
            if field.name in AT_START
            and getattr(settings, field.name) not in (getattr(before, field.name), getattr(self._started, field.name))
        ]
        if changed:
            logger.warning(
                "%s: %s changed, which takes effect when the gateway is started again",
                self._place,
                " and ".join(f"`{name}`" for name in changed),
            )

    def _warn_unapproved(self) -> None:
        """Log which servers will not be started, and the command that approves them."""
        enabled = [entry for entry in self._watch.config.entries if entry.enabled]
        unapproved = self._launches.unapproved(enabled)
        if not unapproved:
            return
        by_file: dict[str, list[str]] = {}
        for entry in unapproved:
            by_file.setdefault(entry.origin.file, []).append(entry.key)
        commands = " and ".join(f"`{approve_command(file, *keys)}`" for file, keys in by_file.items())
        logger.warning(
            "The launches of %s were not approved: these servers are not started. Approve them with %s, or start the "
            "gateway with --trust",
            ", ".join(repr(entry.key) for entry in unapproved),
            commands,
        )

    def _warnings(self, gateway: GatewayPart) -> list[str]:
        """Warnings about settings that can be read, and will not work or do nothing."""
        entries = self._watch.config.entries
        unknown = unknown_names(gateway.settings.profiles, gateway.policy, [entry.key for entry in entries])
        return [
            *(f"{self._place}: {text}" for text in unknown),
            *(
                f"The server {entry.key!r} cannot be used: {entry.problem}"
                for entry in entries
                if entry.enabled and entry.problem is not None
            ),
        ]

    def _policy_option(self, settings: GatewaySettings) -> PolicyOption:
        """The rules, or the absolute path of the file that has them."""
        given: PolicyOption = self._given.get("policy", settings.policy)
        if not isinstance(given, str | os.PathLike):
            return given
        return os.path.abspath(given if "policy" in self._given else os.path.join(self.folder, given))

    def _with_given(self, settings: GatewaySettings) -> GatewaySettings:
        """The settings with those given in code in place of theirs, as far as they are of the same type."""
        fields = {field.name: field for field in msgspec.structs.fields(GatewaySettings)}
        values = {
            name: self._given[name] if name in LIVE else fields[name].default for name in self._given if name in fields
        }
        return msgspec.structs.replace(settings, **values)

    def _read_values(self) -> None:
        """Read the values of the files; of a file that is broken, which the watch tells of, those from before count."""
        for path in self._paths:
            try:
                self._values[path] = _values(path)
            except BadConfig:
                self._values.setdefault(path, {})

    def _read_stamps(self) -> dict[str, tuple[int, ...] | None]:
        """A key that differs after each change of a file, also one of settings only, which changes no launch."""
        policy = self._policy
        files = [*self._paths, policy] if isinstance(policy, str) else self._paths
        stamps: dict[str, tuple[int, ...] | None] = {}
        for path in files:
            try:
                status = os.stat(path)
                stamps[path] = (status.st_mtime_ns, status.st_size, status.st_ino)
            except OSError:
                stamps[path] = None
        return stamps

    def _definition(self, entry: ServerEntry, values: Mapping[str, Any]) -> ServerDefinition:
        settings: ServerSettings = server_settings(values, f"{entry.origin}, server {entry.key!r}")
        return ServerDefinition(
            make_target=functools.partial(self._launches.target, entry),
            fill_secret=functools.partial(self._launches.fill_secret, entry, self._watch.config.inputs),
            settings=settings,
            identity=(entry.key, entry.spec, entry.problem),
        )

    def _server_values(self) -> dict[str, Mapping[str, Any]]:
        """By server: the values of its entry in the file, of which `shared` and `gateway` count."""
        found: dict[str, Mapping[str, Any]] = {}
        for path in self._paths:
            for table in _SERVER_TABLES:
                servers = self._values[path].get(table)
                if isinstance(servers, dict):
                    for key, value in cast("dict[str, Any]", servers).items():
                        if isinstance(value, dict):
                            found.setdefault(key, cast("dict[str, Any]", value))
        return found


_WITH_SECRETS = ("auth", "accounts")
"""The settings of a gateway whose values may be those of environment variables."""


def _filled(given: Any, place: str) -> Any:
    """The settings of a gateway with `${env:…}` filled in, where they may be secrets."""
    if not isinstance(given, dict):
        return given
    around = VariableScope(os.environ, home_of(os.environ), os.getcwd())

    def fill(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: fill(one) for key, one in cast("dict[str, Any]", value).items()}
        if isinstance(value, list):
            return [fill(one) for one in cast("list[Any]", value)]
        if not isinstance(value, str):
            return value
        try:
            expanded = expand(value, around)
        except UnresolvedVariable as problem:
            raise LocalError(f"{place}: {problem}") from None
        if names := input_names(expanded):
            raise LocalError(f"{place}: use an environment variable, as ${{env:…}}, and not the input {names[0]!r}")
        return expanded

    settings = cast("dict[str, Any]", given)
    return {key: fill(value) if key in _WITH_SECRETS else value for key, value in settings.items()}


def _values(path: str) -> dict[str, Any]:
    root = read_document(path).root
    assert isinstance(root, Object)
    return cast("dict[str, Any]", plain(root))
