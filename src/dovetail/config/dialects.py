"""Dialects of configuration files: the part of a file that lists servers, recognised by its content."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from .document import BadConfig, ConfigDocument
from .foreign_keys import normalize_servers, rename_urls
from .jsonc import Array, Node, Object, Scalar

Scope: TypeAlias = Literal["local", "file"]
"""`local` is what `~/.claude.json` says of one project only: it goes before the project's own file."""


class ServerTable(msgspec.Struct, frozen=True):
    """An object of servers by key, with the inputs that belong to it."""

    servers: Object
    inputs: Node | None = None
    scope: Scope = "file"
    foreign: bool = False
    """True if its servers have other keys than ours, which were renamed."""


class ServerTables(msgspec.Struct, frozen=True):
    """All servers of a file, what counts more first."""

    tables: tuple[ServerTable, ...]
    switched_off: frozenset[str] = frozenset()
    """Keys that the user has switched off for this project, here or in the project's own file."""


_WAYS = (("mcpServers",), ("servers",), ("mcp", "servers"))
"""Claude's and Cursor's; VS Code's own file; VS Code's settings."""
_OTHER_WAYS = {"json": ("context_servers", "mcp"), "toml": ("mcp_servers",), "yaml": ("extensions",)}
"""Keys of Zed and opencode, of Codex, and of Goose, by the format of the file."""
_SWITCHED_OFF = ("disabledMcpServers", "disabledMcpjsonServers")


def find_server_tables(document: ConfigDocument, workspace: str) -> ServerTables:
    """The servers of a file that count in a workspace."""
    tables: list[ServerTable] = []
    project = _project(document.root, workspace)
    if project is not None and (servers := _object(document, project.get("mcpServers"))) is not None:
        tables.append(ServerTable(servers, scope="local"))
    for way in _WAYS:
        holder: Object | None = document.root
        for step in way[:-1]:
            inner = holder.get(step) if holder is not None else None
            holder = inner if isinstance(inner, Object) else None
        if holder is not None and (servers := _object(document, holder.get(way[-1]))) is not None:
            named = _normalized(document, servers) if way == _WAYS[0] else servers
            tables.append(ServerTable(named, holder.get("inputs")))
    tables += _foreign_tables(document)
    return ServerTables(tuple(tables), _switched_off(project))


def _foreign_tables(document: ConfigDocument) -> list[ServerTable]:
    named = [(name, document.root.get(name)) for name in _OTHER_WAYS[document.format]]
    return [
        ServerTable(normalize_servers(node), foreign=True)
        for name, node in named
        if isinstance(node, Object) and (name != "mcp" or "servers" not in node.members)
    ]


def _normalized(document: ConfigDocument, servers: Object) -> Object:
    """The servers with the keys of Windsurf and Gemini CLI renamed, and Gemini's `$NAME` as `${NAME}`."""
    is_gemini = ".gemini" in document.file.replace(os.sep, "/").split("/")[-2:]
    return rename_urls(servers, dollar_names=is_gemini)


def repository_root(folder: str) -> str | None:
    """The root of the repository that a folder is in."""
    for each in (Path(folder), *Path(folder).parents):
        if (each / ".git").exists():
            return str(each)
    return None


def _project(root: Object, workspace: str) -> Object | None:
    """The settings of a project in Claude Code's file: under its folder, or the root of its repository."""
    projects = root.get("projects")
    if not isinstance(projects, Object):
        return None
    for folder in dict.fromkeys((workspace, os.path.realpath(workspace), repository_root(workspace))):
        if folder is not None:
            for spelt in (folder, folder.replace(os.sep, "/")):
                if isinstance(project := projects.get(spelt), Object):
                    return project
    return None


def _object(document: ConfigDocument, node: Node | None) -> Object | None:
    if node is None or isinstance(node, Object):
        return node
    raise BadConfig("the servers are to be an object: a key for each, { … }", document.origin(node))


def _switched_off(project: Object | None) -> frozenset[str]:
    lists = [project.get(name) for name in _SWITCHED_OFF] if project is not None else []
    return frozenset(
        item.value
        for each in lists
        if isinstance(each, Array)
        for item in each.items
        if isinstance(item, Scalar) and isinstance(item.value, str)
    )
