"""The servers of a gateway from configuration files, which are read again when they change."""

from __future__ import annotations

import asyncio
import functools
import logging
import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from dovetail.config.config_watch import ConfigWatch
from dovetail.config.document import read_document
from dovetail.config.files import home_of
from dovetail.config.jsonc import Object, plain
from dovetail.config.variables import UnresolvedVariable, VariableScope, expand, input_names
from dovetail.gateway.settings import GatewaySettings, ServerSettings, read_settings, server_settings
from dovetail.gateway.state import ServerDefinition
from dovetail.protocol.errors import LocalError

from .launches import Launches

if TYPE_CHECKING:
    from dovetail.config.entries import ServerEntry

logger = logging.getLogger("dovetail")

POLL_SECONDS = 1.0
"""Seconds between two looks at the files."""

_SERVER_TABLES = ("mcpServers", "servers", "mcp_servers", "context_servers", "extensions")


class ConfigSource:
    """Reads configuration files into definitions of servers."""

    def __init__(self, paths: Sequence[str | os.PathLike[str]], launches: Launches, *, trust: bool) -> None:
        self._watch = ConfigWatch(*paths)
        self._paths = [os.path.abspath(path) for path in paths]
        self._launches = launches
        self._stamps = self._read_stamps()
        for warning in self._watch.config.warnings:
            logger.warning("%s", warning)
        if trust:
            launches.trust(self._watch.config.entries)

    @property
    def folder(self) -> str:
        """The folder of the first file, which paths in the settings start from."""
        return os.path.dirname(self._paths[0])

    def settings(self) -> GatewaySettings:
        """The settings of the gateway, from the first file that has any."""
        for path in self._paths:
            given = _values(path).get("gateway")
            if given is not None:
                place = f"{path}, gateway"
                return cast(GatewaySettings, read_settings(GatewaySettings, _filled(given, place), place))
        return GatewaySettings()

    def servers(self) -> dict[str, ServerDefinition]:
        """The servers that are enabled."""
        options = self._server_values()
        return {
            entry.key: self._definition(entry, options.get(entry.key, {}))
            for entry in self._watch.config.entries
            if entry.enabled
        }

    async def changes(self) -> AsyncGenerator[Mapping[str, ServerDefinition]]:
        """The servers, each time that the files have changed."""
        while True:
            # In a thread, since a file may be large or on a drive that is slow.
            change = await asyncio.to_thread(self._watch.check)
            known, self._stamps = self._stamps, await asyncio.to_thread(self._read_stamps)
            if change is None and self._stamps == known:
                await asyncio.sleep(POLL_SECONDS)
                continue
            for warning in () if change is None else change.warnings:
                logger.warning("%s", warning)
            try:
                yield self.servers()
            except LocalError as problem:
                logger.warning("%s; the settings from before still count", problem)

    def _read_stamps(self) -> list[tuple[int, int] | None]:
        """A key that differs after each change of a file, also one of settings only, which changes no launch."""
        stamps: list[tuple[int, int] | None] = []
        for path in self._paths:
            try:
                status = os.stat(path)
                stamps.append((status.st_mtime_ns, status.st_ino))
            except OSError:
                stamps.append(None)
        return stamps

    def _definition(self, entry: ServerEntry, values: Mapping[str, Any]) -> ServerDefinition:
        settings: ServerSettings = server_settings(values, str(entry.origin))
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
            values = _values(path)
            for table in _SERVER_TABLES:
                servers = values.get(table)
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
