"""Warnings about names in the settings of a gateway that no server can have, and that would do nothing silently."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dovetail.policy.rules import Policy

    from .settings import Profile


def unknown_names(profiles: Mapping[str, Profile], policy: Policy | None, servers: Collection[str]) -> list[str]:
    """The warnings; a pattern may fit nothing, and a tool may come later."""
    rules = () if policy is None else policy.rules
    return [
        *_in_profiles(profiles, servers),
        *(text for rule in rules for text in _in_rule(rule.server, rule.tool, str(rule), servers)),
    ]


def _in_profiles(profiles: Mapping[str, Profile], servers: Collection[str]) -> Iterator[str]:
    for name, profile in profiles.items():
        place = f"the profile {name!r}"
        yield from _unknown_servers(place, profile.servers, servers)
        for tool in profile.tools:
            if not _is_pattern(tool) and "__" not in tool:
                yield f"{place} names the tool {tool!r} without its server: write `SERVER__{tool}`"


def _in_rule(server: str, tool: str | None, text: str, servers: Collection[str]) -> Iterator[str]:
    place = f"the rule {text!r}"
    yield from _unknown_servers(place, [server], servers)
    key, separator, name = (tool or "").partition("__")
    if separator and key in servers:
        yield f"{place} names a tool with its server, which matches none: write `server` {key!r} and `tool` {name!r}"


def _unknown_servers(place: str, named: Iterable[str], servers: Collection[str]) -> Iterator[str]:
    for key in named:
        if key in servers or _is_pattern(key):
            continue
        near = difflib.get_close_matches(key, servers, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        yield f"{place} names the server {key!r}, which does not exist{hint}"


def _is_pattern(name: str) -> bool:
    return any(sign in name for sign in "*?[")
