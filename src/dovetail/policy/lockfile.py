"""`mcp.lock`: what each server offered when a user approved it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

import msgspec

from dovetail.protocol.errors import LocalError
from dovetail.userdata.folders import user_folder
from dovetail.userdata.private_file import FileUnusable, file_lock, read_file, write_shared

from .definitions import Definition, DefinitionKind, difference

NAME = "mcp.lock"
VERSION = 1

Status: TypeAlias = Literal["same", "new", "changed", "gone"]
Servers: TypeAlias = Mapping[str, Mapping[tuple[DefinitionKind, str], Definition]]

_LISTS: Mapping[DefinitionKind, str] = MappingProxyType(
    {"instructions": "instructions", "tool": "tools", "prompt": "prompts", "template": "templates"}
)


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """One definition, as the lock has it and as the server gives it now."""

    server: str
    status: Status
    before: Definition | None
    after: Definition | None

    @property
    def definition(self) -> Definition:
        """The newer of both."""
        either = self.after or self.before
        assert either is not None
        return either

    @property
    def text(self) -> str:
        """The difference, for the user to read."""
        return difference(self.before, self.after)

    def __str__(self) -> str:
        verb = "are" if self.definition.kind == "instructions" else "is"
        return f"{self.server}: {self.definition} {verb} {self.status}"


class Lock:
    """Contents of a lockfile; immutable, each change gives another one."""

    __slots__ = ("_servers",)

    def __init__(self, servers: Servers = MappingProxyType({})) -> None:
        self._servers = servers

    @property
    def servers(self) -> tuple[str, ...]:
        """The servers that were approved."""
        return tuple(sorted(self._servers))

    def definitions(self, server: str) -> tuple[Definition, ...]:
        """The approved definitions of a server."""
        return tuple(self._servers.get(server, {}).values())

    def find(self, server: str, kind: DefinitionKind, name: str) -> Definition | None:
        """One definition as it was approved."""
        return self._servers.get(server, {}).get((kind, name))

    def compare(self, server: str, offered: Iterable[Definition]) -> list[Difference]:
        """Every definition of a server: what is the same, new, changed or gone."""
        known = self._servers.get(server, {})
        now = {definition.key: definition for definition in offered}
        return [
            Difference(
                server=server, status=_status(known.get(key), now.get(key)), before=known.get(key), after=now.get(key)
            )
            for key in sorted({*known, *now})
        ]

    def with_server(self, server: str, definitions: Iterable[Definition]) -> Lock:
        """The lock in which a server has these definitions and no others."""
        return Lock({**self._servers, server: {definition.key: definition for definition in definitions}})

    def with_definitions(self, server: str, *definitions: Definition) -> Lock:
        """The lock in which these definitions of a server are approved too."""
        return self.with_server(server, (*self.definitions(server), *definitions))

    def without(self, server: str) -> Lock:
        """The lock without a server."""
        return Lock({key: kept for key, kept in self._servers.items() if key != server})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Lock) and self.encode() == other.encode()

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def encode(self) -> bytes:
        """The text of the file: sorted, one member a line, the same for the same definitions."""
        servers = {server: _written(kept.values()) for server, kept in self._servers.items()}
        text = msgspec.json.encode({"version": VERSION, "servers": servers}, order="deterministic")
        return msgspec.json.format(text, indent=2) + b"\n"


class LockFile:
    """The file, beside the configuration; programs take turns in changing it."""

    def __init__(self, path: Path, folder: Path | None = None) -> None:
        self.path = path
        mark = sha256(str(path.absolute()).encode()).hexdigest()[:16]
        self._turn = (folder or user_folder()) / "turns" / mark

    def read(self) -> Lock | None:
        """The contents; None if there is no such file."""
        try:
            content = read_file(self.path)
        except FileUnusable as problem:
            raise LocalError(str(problem)) from None
        return None if content is None else decode_lock(content, str(self.path))

    def change(self, new: Callable[[Lock], Lock]) -> Lock:
        """Make a new lock of the one that it holds, and write it; waits for the disk."""
        try:
            with file_lock(self._turn):
                before = self.read()
                lock = new(before or Lock())
                if before is None or lock != before:
                    write_shared(self.path, lock.encode())
        except FileUnusable as problem:
            raise LocalError(str(problem)) from None
        return lock


class _Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    sha256: str
    definition: dict[str, Any]


class _File(msgspec.Struct, frozen=True):
    version: int
    servers: dict[str, dict[str, dict[str, _Entry]]]


def decode_lock(content: bytes, path: str = NAME) -> Lock:
    """Read a lockfile; one in which a definition does not have its SHA-256 is refused."""
    try:
        file = msgspec.json.decode(content, type=_File)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as problem:
        raise LocalError(f"{path} is no lockfile: {problem}") from None
    if file.version != VERSION:
        raise LocalError(f"{path} has version {file.version}; this program knows version {VERSION}")
    kinds: dict[str, DefinitionKind] = {plural: kind for kind, plural in _LISTS.items()}
    servers: dict[str, dict[tuple[DefinitionKind, str], Definition]] = {}
    for server, lists in file.servers.items():
        kept = servers.setdefault(server, {})
        for plural, entries in lists.items():
            if plural not in kinds:
                raise LocalError(f"{path}: {server} has {plural!r}, which this program does not know")
            for name, entry in entries.items():
                definition = Definition(kinds[plural], name, entry.definition)
                if definition.digest != entry.sha256:
                    raise LocalError(
                        f"{path}: {server}: {definition} does not have the SHA-256 that is written there; the file was"
                        " changed by hand. Restore it, or remove it and write a new one with `dovetail lock`"
                    )
                kept[definition.key] = definition
    return Lock(servers)


def _written(definitions: Iterable[Definition]) -> dict[str, dict[str, _Entry]]:
    lists: dict[str, dict[str, _Entry]] = {}
    for definition in definitions:
        entry = _Entry(definition.digest, definition.content)
        lists.setdefault(_LISTS[definition.kind], {})[definition.name] = entry
    return lists


def _status(before: Definition | None, after: Definition | None) -> Status:
    if before is None:
        return "new"
    if after is None:
        return "gone"
    return "same" if before.digest == after.digest else "changed"
