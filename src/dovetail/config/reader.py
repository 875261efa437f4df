"""Reading configuration files into servers."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from dovetail.config.entries import Input, Origin, ServerEntry

from .dialects import Scope, ServerTable, find_server_tables
from .document import ConfigDocument, read_document
from .files import home_of, is_server_file, project_folder, user_files
from .inputs import read_inputs
from .key_typos import FILE_KEYS, suggest_key
from .server_entry import FileContext, read_server
from .variables import VariableScope

_CLAUDE_PROJECT = ".mcp.json"


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration of one file, or of several together."""

    entries: tuple[ServerEntry, ...] = ()
    inputs: tuple[Input, ...] = ()
    warnings: tuple[str, ...] = ()
    """Warnings, each with file and line; none of them keeps a server from starting."""
    files: tuple[str, ...] = ()
    """Every file that was read for it, those that `envFile` names too."""


class TableEntries(msgspec.Struct, frozen=True):
    """The servers of one table of one file."""

    file: str
    scope: Scope
    entries: tuple[ServerEntry, ...]


class ParsedFile(msgspec.Struct, frozen=True):
    """All that one file says, before files are put together."""

    parts: tuple[TableEntries, ...]
    inputs: tuple[Input, ...]
    warnings: tuple[str, ...]
    files: tuple[str, ...]
    switched_off: frozenset[str]


def read_config(
    path: str | os.PathLike[str],
    environ: Mapping[str, str] = os.environ,
    workspace: str | os.PathLike[str] | None = None,
) -> Config:
    """Read one file; `BadConfig`, which names file and line, where it cannot be read at all.

    Without a workspace it is the folder that the file belongs to, or the current one for a user's own file.
    """
    return merge_files([parse_file(path, environ, workspace)])


def read_configs(
    paths: Sequence[str | os.PathLike[str]],
    environ: Mapping[str, str] = os.environ,
    workspace: str | os.PathLike[str] | None = None,
) -> Config:
    """Read several files; of entries with the same key the one of the earliest file counts, and a warning says so.

    What `~/.claude.json` says of the project goes before all: local, then project, then user.
    """
    return merge_files([parse_file(path, environ, workspace) for path in paths])


def parse_file(
    path: str | os.PathLike[str],
    environ: Mapping[str, str],
    workspace: str | os.PathLike[str] | None,
) -> ParsedFile:
    """Read one file, as it is."""
    document = read_document(path)
    own = project_of(document.file, environ)
    around = VariableScope(environ, home_of(environ), os.path.abspath(workspace or own or os.getcwd()))
    tables = find_server_tables(document, around.workspace)
    # In a file of another program, the other keys are that program's.
    is_foreign = any(table.foreign for table in tables.tables)
    warnings = [] if is_foreign else _root_warnings(document, empty=not tables.tables)
    files = [document.file]
    parts: list[TableEntries] = []
    inputs: list[Input] = []
    for table in tables.tables:
        # Commands of a project run in its folder; a user's own file has none.
        folder = around.workspace if table.scope == "local" else own
        part, more = _read_table(document, table, around, folder)
        parts.append(part)
        inputs += more.inputs
        warnings += more.warnings
        files += more.files
    return ParsedFile(tuple(parts), tuple(inputs), tuple(warnings), tuple(files), tables.switched_off)


def merge_files(reads: Sequence[ParsedFile]) -> Config:
    """Put files together: what counts more first."""
    warnings = [text for read in reads for text in read.warnings]
    off = frozenset[str]().union(*(read.switched_off for read in reads))
    parts = [part for read in reads for part in read.parts]
    parts.sort(key=lambda part: part.scope != "local")
    entries: dict[str, ServerEntry] = {}
    for part in parts:
        claude = part.scope == "local" or os.path.basename(part.file) in (_CLAUDE_PROJECT, ".claude.json")
        for entry in part.entries:
            if (first := entries.get(entry.key)) is not None:
                warnings.append(
                    f"{entry.origin}: the server {entry.key!r} stands in {first.origin} too, and that one counts"
                )
                continue
            switched = claude and entry.key in off
            entries[entry.key] = msgspec.structs.replace(entry, enabled=False) if switched else entry
    return Config(
        entries=tuple(entries.values()),
        inputs=tuple(each for read in reads for each in read.inputs),
        warnings=tuple(warnings),
        files=tuple(dict.fromkeys(file for read in reads for file in read.files)),
    )


def project_of(file: str, environ: Mapping[str, str]) -> str | None:
    """The project that a file belongs to; None for a file of the user."""
    if Path(file) in {each.path for each in user_files(Path(home_of(environ)), environ=environ)}:
        return None
    return project_folder(file)


def _read_table(
    document: ConfigDocument, table: ServerTable, around: VariableScope, folder: str | None
) -> tuple[TableEntries, Config]:
    inputs = read_inputs(document, table.inputs)
    surface = FileContext(document, around, inputs, folder, checks_spelling=not table.foreign)
    servers = [read_server(key, member, surface) for key, member in table.servers.members.items()]
    part = TableEntries(document.file, table.scope, tuple(each.entry for each in servers))
    return part, Config(
        inputs=tuple(inputs.known.values()),
        warnings=(*inputs.warnings, *(text for each in servers for text in each.warnings)),
        files=tuple(file for each in servers for file in each.files),
    )


def _root_warnings(document: ConfigDocument, *, empty: bool) -> list[str]:
    warnings = [
        f"{document.origin(member.key)}: {key!r} is no key of this file; did you mean {meant!r}?"
        for key, member in document.root.members.items()
        if (meant := suggest_key(key, FILE_KEYS)) and meant not in document.root.members
    ]
    if empty and not warnings and "projects" not in document.root.members and is_server_file(document.file):
        warnings.append(f"{Origin(document.file)}: the file names no servers: neither mcpServers nor servers is there")
    return warnings
