"""Keys of other programs, renamed to those that Dovetail reads; every value keeps its place in the file."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from .jsonc import Array, Member, Node, Object, Scalar

_RENAMED = {
    "cmd": "command",
    "envs": "env",
    "environment": "env",
    "uri": "url",
    "serverUrl": "url",
    "httpUrl": "url",
    "http_headers": "headers",
}
"""Goose, opencode, Windsurf, Gemini CLI and Codex."""
_URLS = ("serverUrl", "httpUrl")
_TYPES = {"remote": "http", "streamable_http": "http", "local": "stdio"}
_NOT_SERVERS = frozenset({"builtin", "platform", "frontend", "inline_python"})
"""Extensions of Goose that are no programs."""
_DOLLAR = re.compile(r"\$(?=[A-Za-z_])(\w+)")
_BRACED = re.compile(r"(?<!\$)\{env:([^{}]+)\}")
_ENV_NAME_LISTS = ("env_keys", "env_vars")
"""Names of variables that a program hands on: Goose from its secrets, Codex from its environment."""


def rename_urls(servers: Object, *, dollar_names: bool) -> Object:
    """Servers under `mcpServers`: `serverUrl` and `httpUrl` become `url`."""

    def change(server: Object) -> Object:
        members = server.members
        if not ("url" in members and not any(name in members for name in _URLS)):
            members = {"url" if name in _URLS else name: member for name, member in members.items()}
        renamed = Object(server.start, server.end, members)
        return _with_texts(renamed, lambda text: _DOLLAR.sub(r"${\1}", text)) if dollar_names else renamed

    return _each(servers, change)


def normalize_servers(servers: Object) -> Object:
    """Servers of Codex, Goose, opencode and Zed, without entries that start no program and reach no URL."""
    kept = {
        key: member
        for key, member in servers.members.items()
        if not isinstance(member.value, Object) or _is_server(member.value)
    }
    return _each(Object(servers.start, servers.end, kept), normalize_server)


def normalize_server(server: Object) -> Object:
    """One server with our keys."""
    members: dict[str, Member] = {}
    for name, member in server.members.items():
        members[_RENAMED.get(name, name)] = member
    _split_command(members)
    _rename_type(members)
    _read_enabled(members)
    _add_named_variables(members)
    changed = Object(server.start, server.end, members)
    return _with_texts(changed, lambda text: _BRACED.sub(r"${env:\1}", text))


def _is_server(server: Object) -> bool:
    kind = server.get("type")
    if isinstance(kind, Scalar) and kind.value in _NOT_SERVERS:
        return False
    # Zed has settings of its extensions beside servers.
    return any(name in server.members for name in ("command", "cmd", "url", "uri")) or "settings" not in server.members


def _split_command(members: dict[str, Member]) -> None:
    """`command` as a list (opencode), or as an object with `path`, `args` and `env` (Zed until 2025)."""
    member = members.get("command")
    if member is None:
        return
    if isinstance(member.value, Array) and member.value.items:
        first, *rest = member.value.items
        members["command"] = Member(member.key, first, None)
        members["args"] = Member(member.key, Array(member.value.start, member.value.end, tuple(rest)), None)
    elif isinstance(member.value, Object):
        inner = {"command" if name == "path" else name: each for name, each in member.value.members.items()}
        del members["command"]
        members.update({name: each for name, each in inner.items() if name in ("command", "args", "env")})


def _rename_type(members: dict[str, Member]) -> None:
    member = members.get("type")
    if member is not None and isinstance(member.value, Scalar) and isinstance(member.value.value, str):
        word = _TYPES.get(member.value.value, member.value.value)
        members["type"] = Member(member.key, Scalar(member.value.start, member.value.end, word), None)


def _read_enabled(members: dict[str, Member]) -> None:
    member = members.pop("enabled", None)
    if member is not None and isinstance(member.value, Scalar) and isinstance(member.value.value, bool):
        off = Scalar(member.value.start, member.value.end, not member.value.value)
        members["disabled"] = Member(member.key, off, None)


def _add_named_variables(members: dict[str, Member]) -> None:
    """Variables and headers that are given by the names of variables."""
    for name in _ENV_NAME_LISTS:
        named = members.pop(name, None)
        if named is not None and isinstance(named.value, Array):
            texts = [item for item in named.value.items if isinstance(item, Scalar) and isinstance(item.value, str)]
            _extend(members, "env", named, {str(item.value): f"${{{item.value}}}" for item in texts})
    token = members.pop("bearer_token_env_var", None)
    if token is not None and isinstance(token.value, Scalar) and isinstance(token.value.value, str):
        _extend(members, "headers", token, {"Authorization": f"Bearer ${{{token.value.value}}}"})
    headers = members.pop("env_http_headers", None)
    if headers is not None and isinstance(headers.value, Object):
        pairs = {name: each.value for name, each in headers.value.members.items()}
        named_by = {name: value.value for name, value in pairs.items() if isinstance(value, Scalar)}
        _extend(members, "headers", headers, {name: f"${{{variable}}}" for name, variable in named_by.items()})


def _extend(members: dict[str, Member], name: str, place: Member, values: Mapping[str, str]) -> None:
    there = members[name].value if name in members else None
    own = there.members if isinstance(there, Object) else {}
    start, end = place.value.start, place.value.end
    more = {key: Member(place.key, Scalar(start, end, value), None) for key, value in values.items() if key not in own}
    members[name] = Member(
        members[name].key if name in members else place.key, Object(start, end, {**own, **more}), None
    )


def _each(servers: Object, change: Callable[[Object], Object]) -> Object:
    members: dict[str, Member] = {}
    for key, member in servers.members.items():
        value = change(member.value) if isinstance(member.value, Object) else member.value
        members[key] = Member(member.key, value, member.comma)
    return Object(servers.start, servers.end, members)


def _with_texts(node: Object, change: Callable[[str], str]) -> Object:
    members = {name: Member(each.key, _changed(each.value, change), each.comma) for name, each in node.members.items()}
    return Object(node.start, node.end, members)


def _changed(node: Node, change: Callable[[str], str]) -> Node:
    if isinstance(node, Object):
        return _with_texts(node, change)
    if isinstance(node, Array):
        return Array(node.start, node.end, tuple(_changed(item, change) for item in node.items))
    return Scalar(node.start, node.end, change(node.value)) if isinstance(node.value, str) else node
