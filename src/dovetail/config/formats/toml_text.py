"""TOML configuration, as Codex has it: read with `tomllib`, edited as text so that comments stay."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from typing import Any, cast

from dovetail.config.jsonc import BadJson, Member, Object, Scalar

from .nodes import to_node

TABLE = "mcp_servers"

_HEADER = re.compile(r"^[ \t]*\[(?P<array>\[)?[ \t]*(?P<path>[^\[\]\n]+?)[ \t]*\]", re.MULTILINE)
_PART = re.compile(r'\s*(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|\'(?P<literal>[^\']*)\'|(?P<bare>[A-Za-z0-9_-]+))\s*(?:\.|$)')
_PLACE = re.compile(r"line (\d+), column (\d+)")
_BARE = re.compile(r"[A-Za-z0-9_-]+")


def parse_toml(text: str) -> Object:
    """Read a whole text; `BadJson`, with the offset, where that cannot be done."""
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        place = _PLACE.search(str(problem))
        offset = _offset(text, int(place[1]), int(place[2])) if place else len(text)
        raise BadJson(f"TOML is malformed: {problem}", offset) from None
    members: dict[str, Member] = {}
    for name, value in values.items():
        node = to_node(value, 0, len(text))
        if name == TABLE and isinstance(node, Object):
            servers = cast("dict[str, Any]", value)
            places = {key: _section(text, key) or (0, len(text)) for key in servers}
            node = Object(
                0,
                len(text),
                {
                    key: Member(Scalar(*places[key], key), to_node(server, *places[key]), None)
                    for key, server in servers.items()
                },
            )
        members[name] = Member(Scalar(0, 0, name), node, None)
    return Object(0, len(text), members)


def put_toml_server(text: str, key: str, server: Mapping[str, Any]) -> str:
    """Add a server as a table at the end, in place of one with its key; `ValueError` if that would change more."""
    before = tomllib.loads(text)
    rest = remove_toml_server(text, key) if key in before.get(TABLE, {}) else text
    line = "\r\n" if "\r\n" in text else "\n"
    head = rest if not rest or rest.endswith("\n") else rest + line
    lines = [f"[{TABLE}.{_key(key)}]", *(f"{_key(name)} = {_value(value)}" for name, value in server.items())]
    changed = head + (line if head.strip() else "") + line.join(lines) + line
    _require(changed, {**before, TABLE: {**before.get(TABLE, {}), key: dict(server)}})
    return changed


def remove_toml_server(text: str, key: str) -> str:
    """Take the table of a server out, with its sub-tables; `ValueError` if it is written in another way."""
    before = tomllib.loads(text)
    changed = text
    while (section := _section(changed, key)) is not None:
        start, end = section
        head = changed[:start]
        blank = re.search(r"(?<=\n)[ \t]*\r?\n$", head)
        changed = (head[: blank.start()] if blank is not None else head) + changed[end:]
    servers = {name: value for name, value in before.get(TABLE, {}).items() if name != key}
    expected = {name: value for name, value in before.items() if name != TABLE}
    _require(changed, {**expected, TABLE: servers} if servers else expected)
    return changed


def _require(text: str, expected: Mapping[str, Any]) -> None:
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        found = None
    if found is not None and not found.get(TABLE):
        found.pop(TABLE, None)
    wanted = dict(expected)
    if not wanted.get(TABLE):
        wanted.pop(TABLE, None)
    if found != wanted:
        raise ValueError(f"[{TABLE}] is written in a form that cannot be edited here")


def _section(text: str, key: str) -> tuple[int, int] | None:
    """The first table of a server: from its header to the next one, without blank lines and comments before that."""
    headers = list(_HEADER.finditer(text))
    for index, header in enumerate(headers):
        path = _path(header["path"])
        if header["array"] or path[:2] != [TABLE, key]:
            continue
        end = headers[index + 1].start() if index + 1 < len(headers) else len(text)
        lines = text[header.start() : end].splitlines(keepends=True)
        # Comments directly before the next header belong to it.
        while lines[-1].strip() == "" or lines[-1].lstrip().startswith("#"):
            lines.pop()
        return header.start(), header.start() + sum(map(len, lines))
    return None


def _path(text: str) -> list[str]:
    parts: list[str] = []
    at = 0
    while at < len(text) and (match := _PART.match(text, at)):
        quoted = match["quoted"]
        parts.append(json.loads(f'"{quoted}"') if quoted is not None else match["literal"] or match["bare"] or "")
        at = match.end()
    return parts


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else json.dumps(name, ensure_ascii=False)


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        pairs = cast("Mapping[str, Any]", value)
        inner = ", ".join(f"{_key(name)} = {_value(item)}" for name, item in pairs.items())
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, list):
        return f"[{', '.join(_value(item) for item in cast('list[Any]', value))}]"
    # JSON writes texts, numbers and booleans as TOML does, but for one character.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _offset(text: str, line: int, column: int) -> int:
    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    return min(starts[min(line, len(starts)) - 1] + column - 1, len(text))
