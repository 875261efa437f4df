"""Servers of a host that are named on the command line, in place of a configuration file."""

from __future__ import annotations

import os
from collections.abc import Sequence

import msgspec

from dovetail.cli.parser import UsageError
from dovetail.config.entries import ServerEntry
from dovetail.config.launch_spec import LaunchSpec

from .targets import TargetSearch, command_name, host_name


def target_entries(words: Sequence[str], arguments: Sequence[str] = ()) -> tuple[list[ServerEntry], list[str]]:
    """An entry for each target, and the keys of those that the user typed, rather than named in a configuration."""
    if arguments and len(words) > 1:
        raise UsageError("arguments after -- are for one server")
    search = TargetSearch(arguments)
    entries: dict[str, ServerEntry] = {}
    typed: list[str] = []
    for word in words:
        found = search.find(word)
        if isinstance(found, str):
            entry = ServerEntry(key=host_name(found), spec=_web_launch(found))
        elif isinstance(found, list):
            spec = LaunchSpec(kind="stdio", command=tuple(found), cwd=os.getcwd())
            entry = ServerEntry(key=command_name(word), spec=spec)
        else:
            entry = found.entry
        key = _free_key(entry.key, entries)
        entries[key] = entry if key == entry.key else msgspec.structs.replace(entry, key=key)
        if isinstance(found, str | list):
            typed.append(key)
    return list(entries.values()), typed


def _web_launch(url: str) -> LaunchSpec:
    scheme = url.partition(":")[0].lower()
    if scheme not in ("http", "https", "ws", "wss"):
        raise UsageError(f"a host reaches servers over http, https, ws and wss, not {url}")
    return LaunchSpec(kind="ws" if scheme.startswith("ws") else "http", url=url)


def _free_key(wish: str, used: dict[str, ServerEntry]) -> str:
    key, number = wish, 1
    while key in used:
        number += 1
        key = f"{wish}-{number}"
    return key
