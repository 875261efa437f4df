"""Rules for names: of tools, of tools of several servers together, and of headers that mirror arguments of tools."""

from __future__ import annotations

import re
from typing import Any, TypeAlias, cast

import msgspec

_TOOL = re.compile(r"[A-Za-z0-9_.\-]{1,128}")
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_MIRRORED = ("string", "integer", "boolean")
_MIRRORED_IN_DRAFT = (*_MIRRORED, "number")

MAX_NAME = 64
"""Longest tool name that model providers accept, in characters of `[A-Za-z0-9_-]`."""

_HASH = 12
_ODD_IN_TOOL = re.compile(r"[^A-Za-z0-9_-]")
_HASHED = re.compile(rf"_[0-9a-f]{{{_HASH}}}\Z")

NamedOwner: TypeAlias = tuple[str, str]
"""The key of a server, and what the server itself calls its tool or prompt."""


def check_tool_name(name: str) -> str | None:
    """A warning about a name that other programs may refuse, or None (tools, "Tool Names")."""
    if _TOOL.fullmatch(name):
        return None
    shown = name if len(name) <= 140 else name[:140] + "..."
    if not 1 <= len(name) <= 128:
        return f"The tool name {shown!r} has {len(name)} characters; it should have 1 to 128."
    odd = "".join(dict.fromkeys(char for char in name if not _TOOL.fullmatch(char)))
    return f"The tool name {shown!r} contains {odd!r}; it should consist of A-Z, a-z, 0-9, _, - and . only."


def tool_name(server: str, tool: str) -> str:
    """`server__tool`, or one that ends in a hash of both where that is too long, odd, or could be another's.

    A key without `__` that does not end in `_` ends where the first `__` stands, so that no two owners share a name
    without a hash; and no name without a hash looks like one with a hash.
    """
    plain = f"{server}__{tool}"
    clear = bool(server) and bool(tool) and "__" not in server and not server.endswith("_")
    return unless_odd(plain, clear, _ODD_IN_TOOL, MAX_NAME, (server, tool))


def unless_odd(plain: str, clear: bool, odd: re.Pattern[str], longest: int, owner: NamedOwner) -> str:
    """A name as it is if it is clear, short enough and has no odd character, or one with a hash of its owner."""
    if clear and len(plain) <= longest and not odd.search(plain) and not _HASHED.search(plain):
        return plain
    from hashlib import sha256

    digest = sha256(msgspec.json.encode(owner)).hexdigest()[:_HASH]
    return f"{odd.sub('_', plain)[: longest - _HASH - 1]}_{digest}"


def header_paths(schema: dict[str, Any], *, numbers: bool = False) -> dict[tuple[str, ...], str]:
    """The arguments that a tool's input schema mirrors into headers: path of property names -> header name.

    Raises ValueError for the first violation: a header name must be a token, unique regardless of case, on a string,
    integer or boolean that is reached through `properties` only (Streamable HTTP, "Custom Headers from Tool
    Parameters"). With `numbers`, the type `number` is mirrored too, as in the draft that introduced these headers.
    """
    kinds = _MIRRORED_IN_DRAFT if numbers else _MIRRORED
    if b"x-mcp-header" not in msgspec.json.encode(schema):
        return {}
    paths: dict[tuple[str, ...], str] = {}
    owners: dict[str, tuple[str, ...]] = {}
    reached: set[int] = set()
    stack: list[tuple[tuple[str, ...], dict[str, Any]]] = [((), schema)]
    while stack:
        path, node = stack.pop()
        reached.add(id(node))
        if "x-mcp-header" in node:
            name = _checked(path, node, kinds)
            other = owners.setdefault(name.lower(), path)
            if other is not path:
                raise ValueError(f"the header {name} is used by both {'.'.join(other)} and {'.'.join(path)}")
            paths[path] = name
        properties = node.get("properties")
        if isinstance(properties, dict):
            named = cast("dict[str, Any]", properties)
            # The map of properties is no schema: a property may itself be called x-mcp-header.
            reached.add(id(named))
            for key, sub in named.items():
                if isinstance(sub, dict):
                    stack.append(((*path, key), cast("dict[str, Any]", sub)))
    _refuse_elsewhere(schema, reached)
    return paths


def _checked(path: tuple[str, ...], node: dict[str, Any], kinds: tuple[str, ...]) -> str:
    name, place = node["x-mcp-header"], ".".join(path) or "the root"
    if not isinstance(name, str) or not _TOKEN.fullmatch(name):
        raise ValueError(f"the header {name!r} of {place} is no HTTP token")
    if node.get("type") not in kinds:
        allowed = ", ".join(kinds[:-1])
        raise ValueError(f"{place} cannot be mirrored into a header: only a {allowed} or {kinds[-1]} can")
    return name


_DATA = frozenset({"const", "default", "enum", "examples"})


def _refuse_elsewhere(schema: dict[str, Any], reached: set[int]) -> None:
    stack: list[object] = [schema]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            known = cast("dict[str, object]", node)
            if "x-mcp-header" in known and id(known) not in reached and isinstance(known["x-mcp-header"], str):
                raise ValueError(
                    f"the header {known['x-mcp-header']!r} is at a place that no fixed path of properties leads to"
                )
            is_map = id(known) in reached and "type" not in known
            stack.extend(sub for key, sub in known.items() if key not in _DATA or is_map)
        elif isinstance(node, list):
            stack.extend(cast("list[object]", node))
