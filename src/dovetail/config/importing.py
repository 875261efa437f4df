"""Import of servers from other programs' configuration files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

import msgspec

from dovetail.config.entries import Origin

from .dialects import ServerTable, find_server_tables
from .document import ConfigDocument, read_document
from .editing import input_ids
from .files import product_of
from .inputs import read_inputs
from .jsonc import Array, Object, Scalar, plain
from .reader import project_of
from .secret_inputs import extract_secrets, free_id
from .variables import INPUT, REFERENCE, input_names


class ImportedServer(msgspec.Struct, frozen=True):
    """A server to take over, as it would be written, with the inputs that it wants."""

    key: str
    server: dict[str, Any]
    origin: Origin
    inputs: tuple[dict[str, Any], ...] = ()


class SkippedServer(msgspec.Struct, frozen=True):
    """A server that is left where it is, and why."""

    key: str
    origin: Origin
    reason: str


class ImportPlan(msgspec.Struct, frozen=True):
    """Plan of an import: the servers that are taken over, and those that are not."""

    taken: tuple[ImportedServer, ...]
    skipped: tuple[SkippedServer, ...]


def plan_import(
    sources: Sequence[str | os.PathLike[str]],
    target: ConfigDocument,
    environ: Mapping[str, str] = os.environ,
    replaced: bool = False,
) -> ImportPlan:
    """Plan to take over what the target does not have; with `replaced` also what it has with other values."""
    target_servers = {key: plain(node) for key, node in _servers(target)}
    taken: dict[str, ImportedServer] = {}
    skipped: list[SkippedServer] = []
    for candidate in _candidates([read_document(path) for path in sources], target, environ):
        judged = _judge(candidate, taken, target_servers, target.file, replaced)
        if isinstance(judged, ImportedServer):
            taken[judged.key] = judged
        else:
            skipped.append(judged)
    return ImportPlan(tuple(_with_own_inputs(list(taken.values()), input_ids(target))), tuple(skipped))


def _candidates(
    documents: Sequence[ConfigDocument], target: ConfigDocument, environ: Mapping[str, str]
) -> Iterator[ImportedServer | SkippedServer]:
    """Every server of the sources, those that count more first, as it would be written to the target."""
    home, here = project_of(target.file, environ), os.getcwd()
    off = frozenset[str]().union(*(find_server_tables(each, here).switched_off for each in documents))
    for document in documents:
        folder = project_of(document.file, environ)
        switched_off = off if product_of(document.file) == "claude-code" else frozenset[str]()
        for table in find_server_tables(document, folder or here).tables:
            place = here if table.scope == "local" else folder
            for server in _from_table(document, table, place if place != home else None):
                yield _switched_off(server) if server.key in switched_off else server


def _judge(
    candidate: ImportedServer | SkippedServer,
    taken: Mapping[str, ImportedServer],
    target_servers: Mapping[str, Any],
    target_file: str,
    replaced: bool,
) -> ImportedServer | SkippedServer:
    """The candidate if it is taken over, or the reason why not: the first of a name wins, then the target."""
    if candidate.key in taken:
        reason = f"the one of {taken[candidate.key].origin} goes before it"
        return SkippedServer(candidate.key, candidate.origin, reason)
    if isinstance(candidate, SkippedServer) or candidate.key not in target_servers:
        return candidate
    existing = target_servers[candidate.key]
    if existing == candidate.server or (not replaced and _alike(existing, candidate)):
        return SkippedServer(candidate.key, candidate.origin, f"{target_file} has it already")
    if not replaced:
        reason = f"{target_file} has another server of this name (--replace)"
        return SkippedServer(candidate.key, candidate.origin, reason)
    return candidate


def _switched_off(one: ImportedServer | SkippedServer) -> ImportedServer | SkippedServer:
    if isinstance(one, SkippedServer):
        return one
    return msgspec.structs.replace(one, server={**one.server, "disabled": True})


def _alike(there: Any, one: ImportedServer) -> bool:
    """True if a server was taken over before, with its secrets put aside and its inputs under other names."""
    hidden, _ = extract_secrets(one.key, one.server, ())
    return _unnamed(there) in (_unnamed(one.server), _unnamed(hidden))


def _unnamed(server: Any) -> Any:
    return _mapped(server, lambda text: INPUT.sub("${input:}", text))


def _with_own_inputs(taken: Sequence[ImportedServer], used: Sequence[str]) -> list[ImportedServer]:
    """Inputs of another name where the target has one of that name: a secret of one server is none for another."""
    ids = set(used)
    names: dict[tuple[str, str], str] = {}
    renamed: list[ImportedServer] = []
    for one in taken:
        changes: dict[str, str] = {}
        for wanted in one.inputs:
            place = (one.origin.file, str(wanted["id"]))
            if place not in names:
                names[place] = place[1] if place[1] not in ids else free_id(place[1], ids)
                ids.add(names[place])
            changes[place[1]] = names[place]
        inputs = tuple({**wanted, "id": changes[str(wanted["id"])]} for wanted in one.inputs)
        server = cast("dict[str, Any]", _mapped(one.server, lambda text, to=changes: _renamed(text, to)))
        renamed.append(msgspec.structs.replace(one, server=server, inputs=inputs))
    return renamed


def _renamed(text: str, changes: Mapping[str, str]) -> str:
    return INPUT.sub(lambda match: f"${{input:{changes.get(match[1], match[1])}}}", text)


def _servers(document: ConfigDocument) -> list[tuple[str, Object]]:
    tables = find_server_tables(document, os.path.dirname(document.file)).tables
    return [
        (key, member.value)
        for table in tables
        if table.scope == "file"
        for key, member in table.servers.members.items()
        if isinstance(member.value, Object)
    ]


def _from_table(
    document: ConfigDocument, table: ServerTable, folder: str | None
) -> list[ImportedServer | SkippedServer]:
    inputs = read_inputs(document, table.inputs)
    declared = {
        id.value: item
        for item in (table.inputs.items if isinstance(table.inputs, Array) else ())
        if isinstance(item, Object) and isinstance(id := item.get("id"), Scalar)
    }
    each: list[ImportedServer | SkippedServer] = []
    for key, member in table.servers.members.items():
        origin = document.origin(member.key)
        if not isinstance(member.value, Object):
            each.append(SkippedServer(key, origin, "it is no object"))
            continue
        server = cast("dict[str, Any]", plain(member.value))
        wanted = dict.fromkeys(input_names(document.text[member.value.start : member.value.end]))
        missing = [name for name in wanted if name not in inputs.known]
        if missing:
            reason = inputs.refused.get(missing[0], f"its file has no input {missing[0]!r}")
            each.append(SkippedServer(key, origin, reason))
            continue
        if folder is not None:
            server = _elsewhere(server, folder)
        each.append(ImportedServer(key, server, origin, tuple(plain(declared[name]) for name in wanted)))
    return each


def _elsewhere(server: dict[str, Any], folder: str) -> dict[str, Any]:
    """The same server for a file outside of its project: what was relative to the project names it."""
    names = {"${workspaceFolder}": folder, "${workspaceFolderBasename}": os.path.basename(folder)}
    named = REFERENCE.sub
    moved = cast(
        "dict[str, Any]", _mapped(server, lambda text: named(lambda match: names.get(match[0], match[0]), text))
    )
    for name in ("cwd", "envFile"):
        value = moved.get(name)
        if isinstance(value, str) and not value.startswith(("~", "${")):
            moved[name] = os.path.normpath(os.path.join(folder, value))
    if "command" in moved:
        moved.setdefault("cwd", folder)
    return moved


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    """The same value with every text in it changed."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [_mapped(item, change) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {key: _mapped(item, change) for key, item in cast("dict[str, Any]", value).items()}
    return value
