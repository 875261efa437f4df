"""Servers of a configuration file as targets: `mcp.json#weather`, or `mcp.json` with one server."""

from __future__ import annotations

import difflib
import os
from collections.abc import Sequence

from dovetail.config.entries import ServerEntry
from dovetail.config.launch_spec import LaunchSpec, fill_inputs
from dovetail.protocol.errors import LocalError

_ENDINGS = (".json", ".jsonc", ".toml", ".yaml", ".yml")


def split_config_word(word: str) -> tuple[str, str | None] | None:
    """The file and the key of `mcp.json#key`, or the file alone; None for a word that names no configuration file."""
    if word.lower().endswith(_ENDINGS) and os.path.isfile(word):
        return word, None
    file, sign, key = word.rpartition("#")
    if sign and key and file.lower().endswith(_ENDINGS):
        return file, key
    return None


def find_entry(file: str, key: str | None) -> ServerEntry:
    """The server of a file with this key, or its only one."""
    from dovetail.config.reader import read_config

    return choose_entry(read_config(file).entries, file, key)


def choose_entry(entries: Sequence[ServerEntry], file: str, key: str | None) -> ServerEntry:
    """The entry with this key, or the only one; a `LocalError` names what there is."""
    keys = [entry.key for entry in entries]
    if not keys:
        raise LocalError(f"{file} names no servers")
    if key is None and len(keys) > 1:
        raise LocalError(f"{file} has {len(keys)} servers; name one: {', '.join(f'{file}#{each}' for each in keys)}")
    found = next((entry for entry in entries if key in (None, entry.key)), None)
    if found is None:
        near = difflib.get_close_matches(key or "", keys, 1)
        hint = f"did you mean {file}#{near[0]}?" if near else f"there are {', '.join(keys)}"
        raise LocalError(f"{file} has no server {key!r}; {hint}")
    return found


def launch_of(entry: ServerEntry) -> LaunchSpec:
    """The launch of a configured server; `LocalError` if it cannot be started."""
    if entry.spec is None:
        raise LocalError(f"The server {entry.key!r} cannot be started: {entry.problem}")
    missing = [each.id for each in entry.inputs if each.default is None]
    if missing:
        raise LocalError(
            f"The server {entry.key!r} ({entry.origin}) needs a value for {', '.join(missing)}, and a client cannot ask"
            " for it: fill the entry with `Secrets`, or use the server in a host"
        )
    return fill_inputs(entry.spec, {each.id: each.default or "" for each in entry.inputs})
