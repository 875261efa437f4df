"""Servers of every configuration file that is found here: the project's, the user's, and those of other programs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from dovetail.config.entries import ServerEntry


class ConfiguredServer(NamedTuple):
    """One server, and the file that it is in."""

    entry: ServerEntry
    file: str
    product: str
    """The program that the file belongs to."""
    scope: Literal["project", "user"]
    """`project` for a file that may come with a repository; such a server is not started without approval."""
    first: bool
    """True if its name means this server: it is in the first file that has the name."""

    @property
    def has_url(self) -> bool:
        """True if the server is at a URL, and not started as a process."""
        return self.entry.spec is not None and self.entry.spec.url is not None


class ConfiguredServers(NamedTuple):
    """All servers, what counts more first, and what is wrong with the files."""

    servers: list[ConfiguredServer]
    files: list[str]
    warnings: list[str]

    def named(self, name: str) -> ConfiguredServer | None:
        """The server that a name means."""
        return next((each for each in self.servers if each.first and each.entry.key == name), None)


def find_configured_servers(paths: Sequence[str] = ()) -> ConfiguredServers:
    """Read the files that are named, or all that are found; one that cannot be read is a warning."""
    from dovetail.config.document import BadConfig
    from dovetail.config.files import ConfigFile, find_files, home_of, product_of, user_files
    from dovetail.config.reader import read_config

    found = find_files()
    if paths:
        mine = {each.path: each for each in user_files(Path(home_of(os.environ)))}
        named = [Path(path).absolute() for path in paths]
        found = [mine.get(path) or ConfigFile(product_of(path) or "dovetail", "project", path) for path in named]
    servers: list[ConfiguredServer] = []
    warnings: list[str] = []
    names: set[str] = set()
    for each in found:
        try:
            config = read_config(each.path)
        except BadConfig as problem:
            warnings.append(str(problem))
            continue
        warnings += config.warnings
        for entry in config.entries:
            servers.append(ConfiguredServer(entry, str(each.path), each.product, each.scope, entry.key not in names))
            names.add(entry.key)
    return ConfiguredServers(servers, [str(each.path) for each in found], warnings)
