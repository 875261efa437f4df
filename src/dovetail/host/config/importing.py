"""Taking servers over from other programs' files, so that they start here as they start there."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import msgspec

from dovetail.host.entries import Origin

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
    """What an import would do."""

    taken: tuple[ImportedServer, ...]
    skipped: tuple[SkippedServer, ...]


def plan_import(
    sources: Sequence[str | os.PathLike[str]],
    target: ConfigDocument,
    environ: Mapping[str, str] = os.environ,
    replaced: bool = False,
) -> ImportPlan:
    """What the sources have that the target has not; with `replaced` also what the target has otherwise."""
    home, here = project_of(target.file, environ), os.getcwd()
    there = {key: plain(node) for key, node in _servers(target)}
    taken: dict[str, ImportedServer] = {}
    skipped: list[SkippedServer] = []
    documents = [read_document(path) for path in sources]
    off = frozenset[str]().union(*(find_server_tables(each, here).switched_off for each in documents))
    for document in documents:
        folder = project_of(document.file, environ)
        switched = off if product_of(document.file) == "claude-code" else frozenset[str]()
        for table in find_server_tables(document, folder or here).found:
            place = here if table.scope == "local" else folder
            for each in _from_table(document, table, place if place != home else None):
                one = _switched_off(each) if each.key in switched else each
                reason = one.reason if isinstance(one, SkippedServer) else None
                if one.key in taken:
                    reason = f"the one of {taken[one.key].origin} goes before it"
                elif isinstance(one, ImportedServer) and one.key in there:
                    if there[one.key] == one.server or (not replaced and _alike(there[one.key], one)):
                        reason = f"{target.file} has it already"
                    elif not replaced:
                        reason = f"{target.file} has another server of this name (--replace)"
                if reason is not None:
                    skipped.append(SkippedServer(one.key, one.origin, reason))
                elif isinstance(one, ImportedServer):
                    taken[one.key] = one
    return ImportPlan(tuple(_with_own_inputs(list(taken.values()), input_ids(target))), tuple(skipped))


def _switched_off(one: ImportedServer | SkippedServer) -> ImportedServer | SkippedServer:
    if isinstance(one, SkippedServer):
        return one
    return msgspec.structs.replace(one, server={**one.server, "disabled": True})


def _alike(there: Any, one: ImportedServer) -> bool:
    """Whether a server was taken over before, with its secrets put aside and its inputs under other names."""
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
    return INPUT.sub(lambda found: f"${{input:{changes.get(found[1], found[1])}}}", text)


def _servers(document: ConfigDocument) -> list[tuple[str, Object]]:
    tables = find_server_tables(document, os.path.dirname(document.file)).found
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
        found.value: item
        for item in (table.inputs.items if isinstance(table.inputs, Array) else ())
        if isinstance(item, Object) and isinstance(found := item.get("id"), Scalar)
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
        "dict[str, Any]", _mapped(server, lambda text: named(lambda found: names.get(found[0], found[0]), text))
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
