"""Changing a configuration file: only the text of what is changed, by its place; comments and order stay.

What is put in is plain JSON, so that a file without comments stays one for every reader.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import stat
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dovetail.config.entries import Origin
from dovetail.protocol.errors import LocalError
from dovetail.userdata.folders import user_folder
from dovetail.userdata.private_file import file_lock

from .document import BOM, BadConfig, ConfigDocument, read_text
from .jsonc import Array, Node, Object, Scalar
from .variables import input_names

LOCK = "config.lock"
"""In the user's folder: programs that change a configuration take turns, also with different files."""


def empty_text(file: str) -> str:
    """The text of a new file, with the key under which its program reads servers."""
    from .files import product_of

    return f'{{\n  "{"servers" if product_of(file) == "vscode" else "mcpServers"}": {{}}\n}}\n'


_WAYS = (("mcpServers",), ("servers",), ("mcp", "servers"))
_INDENT = re.compile(r"\n([ \t]+)\S")
_TO_COMMA = re.compile(r"(?:[ \t\r\n]|//[^\n]*|/\*(?s:.*?)\*/)*+,")
_BESIDE = re.compile(r"[ \t]*(?://[^\r\n]*|/\*[^\r\n]*?\*/)?")


def edit_file(path: str | os.PathLike[str], change: Callable[[ConfigDocument], str]) -> None:
    """Change a file as a whole, or not at all; one that is not there begins empty, one that cannot be read is refused.

    A link stays a link, and the file keeps its permissions and its owner; a new one is the user's alone.
    """
    with file_lock(user_folder() / LOCK):
        _edit(os.path.realpath(path), change)


def _edit(file: str, change: Callable[[ConfigDocument], str]) -> None:
    if os.path.splitext(file)[1].lower() in (".toml", ".yaml", ".yml"):
        raise BadConfig("only JSON files are edited; `dovetail install --into` writes to this program", Origin(file))
    there = os.path.lexists(file)
    text = read_text(file) if there else empty_text(file)
    # Read once more before it is written: an edit that broke the file would take every server with it.
    changed = ConfigDocument(file, change(ConfigDocument(file, text))).text
    if not there:
        _replace(Path(file), changed.encode(), None)
    elif changed != text:
        if read_text(file) != text:
            raise BadConfig("the file was changed by somebody else at the same moment; try again", Origin(file))
        if not os.access(file, os.W_OK):
            # Its folder may well let us put another file in its place, which is not what a read-only file is for.
            raise BadConfig("the file cannot be written: it is read-only", Origin(file))
        _replace(Path(file), changed.encode(), os.stat(file))


def replace_text(path: str | os.PathLike[str], before: str | None, after: str | None) -> None:
    """Put a whole text in place of another, None for no file; `BadConfig` if the file is no longer as it was read."""
    file = os.path.realpath(path)
    with file_lock(user_folder() / LOCK):
        there = read_text(file) if os.path.lexists(file) else None
        if there != before:
            raise BadConfig("the file was changed by another program at the same moment; try again", Origin(file))
        if after is None:
            os.unlink(file)
            return
        if before is not None and not os.access(file, os.W_OK):
            raise BadConfig("the file cannot be written: it is read-only", Origin(file))
        _replace(Path(file), after.encode(), None if before is None else os.stat(file))


def put_under(document: ConfigDocument, way: Sequence[str], value: Any) -> str:
    """Set the value under a path of keys."""
    return _put(document, document.root, list(way), value)


def remove_under(document: ConfigDocument, way: Sequence[str]) -> str:
    """Take out the value under a path of keys."""
    node: Node | None = document.root
    for step in way[:-1]:
        node = node.get(step) if isinstance(node, Object) else None
    if not isinstance(node, Object) or way[-1] not in node.members:
        raise LocalError(f"{document.file} has no {'.'.join(way)}")
    return _remove(document.text, node, way[-1])


def put_server(document: ConfigDocument, key: str, server: Mapping[str, Any]) -> str:
    """Add a server, or put it in place of the one with its key."""
    return _put(document, document.root, [*_way(document), key], dict(server))


def remove_server(document: ConfigDocument, key: str) -> str:
    """Take a server out."""
    return _remove(document.text, _server_table(document, key), key)


def switch_off(document: ConfigDocument, key: str) -> str:
    """Keep a server from being started."""
    return _put(document, _server(document, key), ["disabled"], True)


def switch_on(document: ConfigDocument, key: str) -> str:
    """Let a server be started again."""
    server = _server(document, key)
    return _remove(document.text, server, "disabled") if "disabled" in server.members else document.text


def put_input(document: ConfigDocument, wanted: Mapping[str, Any]) -> str:
    """Add an input; the list of inputs stands beside the servers."""
    holder = _beside_servers(document)
    inputs = holder.get("inputs")
    if inputs is None:
        return _put(document, holder, ["inputs"], [dict(wanted)])
    if not isinstance(inputs, Array):
        raise BadConfig("inputs is to be a list", document.origin(inputs))
    last = inputs.items[-1].end if inputs.items else None
    return _insert(document.text, inputs, last, "", dict(wanted))


def remove_input(document: ConfigDocument, name: str) -> str:
    """Take an input out that no server wants any more; one that is not there, or still wanted, stays as it is."""
    holder, text = _beside_servers(document), document.text
    inputs = holder.get("inputs")
    if f"${{input:{name}}}" in text or not isinstance(inputs, Array):
        return text
    for index, item in enumerate(inputs.items):
        if isinstance(item, Object) and isinstance(id := item.get("id"), Scalar) and id.value == name:
            before = inputs.items[index - 1] if index else None
            return _cut(text, item.start, item.end, None if before is None else before.end)
    return text


def wanted_inputs(document: ConfigDocument, key: str) -> list[str]:
    """The inputs that a server of the file wants; none where it has no such server."""
    server = next((table.get(key) for table in _tables(document) if key in table.members), None)
    return [] if server is None else input_names(document.text[server.start : server.end])


def input_ids(document: ConfigDocument) -> list[str]:
    """The ids of the inputs that the file has."""
    inputs = _beside_servers(document).get("inputs")
    ids = [item.get("id") for item in inputs.items if isinstance(item, Object)] if isinstance(inputs, Array) else []
    return [str(each.value) for each in ids if isinstance(each, Scalar)]


def server_keys(document: ConfigDocument) -> list[str]:
    """The keys that an edit can reach."""
    return [key for table in _tables(document) for key in table.members]


def _tables(document: ConfigDocument) -> list[Object]:
    tables: list[Object] = []
    for way in _WAYS:
        node: Node | None = document.root
        for step in way:
            node = node.get(step) if isinstance(node, Object) else None
        if isinstance(node, Object):
            tables.append(node)
    return tables


def _server_table(document: ConfigDocument, key: str) -> Object:
    for table in _tables(document):
        if key in table.members:
            return table
    raise LocalError(f"{document.file} has no server {key!r}")


def _server(document: ConfigDocument, key: str) -> Object:
    table = _server_table(document, key)
    server = table.get(key)
    if not isinstance(server, Object):
        raise BadConfig(f"the server {key!r} is no object", document.origin(table.members[key].value))
    return server


def _way(document: ConfigDocument) -> tuple[str, ...]:
    """The path to the table for new servers: the first that exists, or a new one."""
    for way in _WAYS:
        node: Node | None = document.root
        for step in way:
            node = node.get(step) if isinstance(node, Object) else None
        if node is not None:
            if not isinstance(node, Object):
                raise BadConfig("the servers are to be an object: { … }", document.origin(node))
            return way
    return _WAYS[0]


def _beside_servers(document: ConfigDocument) -> Object:
    node = document.root
    for step in _way(document)[:-1]:
        inner = node.get(step)
        node = inner if isinstance(inner, Object) else node
    return node


def _put(document: ConfigDocument, node: Object, steps: list[str], value: Any) -> str:
    """Set a value under a path of keys."""
    name, *rest = steps
    member = node.members.get(name)
    text = document.text
    if member is None:
        for step in reversed(rest):
            value = {step: value}
        last = max((each.value.end for each in node.members.values()), default=None)
        return _insert(text, node, last, f"{json.dumps(name, ensure_ascii=False)}: ", value)
    if rest and isinstance(member.value, Object):
        return _put(document, member.value, rest, value)
    words = _dumped(text, value, _margin(text, member.key.start))
    return text[: member.value.start] + words + text[member.value.end :]


def _insert(text: str, node: Object | Array, last: int | None, label: str, value: Any) -> str:
    """Put something after the last value of an object or a list, on a line of its own where the others have one."""
    line, outer = _break(text), _margin(text, node.start)
    inside = text[node.start + 1 : node.end - 1]
    blank = inside[: len(inside) - len(inside.lstrip())]
    if last is None:
        margin = outer + _unit(text)
        words = f"{margin}{label}{_dumped(text, value, margin)}{line}{outer}"
        # Comments may stand there even so.
        head = text[: node.end - 1].rstrip(" \t") if inside.strip() else text[: node.start + 1]
        return f"{head}{'' if head.endswith(chr(10)) else line}{words}{text[node.end - 1 :]}"
    broken = "\n" in blank
    margin = blank.rpartition("\n")[2] if broken else outer
    words = f"{line}{margin}" if broken else " "
    words += label + _dumped(text, value, margin)
    trailing = _TO_COMMA.match(text, last)
    after = last if trailing is None else trailing.end()
    # A comment behind the last value belongs to it.
    place = after if not broken or (beside := _BESIDE.match(text, after)) is None else beside.end()
    if trailing is not None:
        return f"{text[:place]}{words},{text[place:]}"
    return f"{text[:last]},{text[last:place]}{words}{text[place:]}"


def _remove(text: str, node: Object, name: str) -> str:
    """Take a member out."""
    names = list(node.members)
    before = names.index(name) - 1
    member = node.members[name]
    return _cut(
        text, member.key.start, member.value.end, node.members[names[before]].value.end if before >= 0 else None
    )


def _cut(text: str, start: int, end: int, before: int | None) -> str:
    """Take out what stands there, with the comma that is needed no more, and the line if nothing else is on it.

    `before` is the end of the value before it, if there is one.
    """
    if (after := _TO_COMMA.match(text, end)) is not None:
        comma = after.end() - 1
        # What stands between the two is a comment, and stays.
        return _without_line(text[:comma] + text[comma + 1 :], start, end)
    if before is not None and (match := _TO_COMMA.match(text, before)) is not None:
        # It was the last one: the comma before it would now stand at the end.
        comma = match.end() - 1
        return _without_line(text[:comma] + text[comma + 1 :], start - 1, end - 1)
    return _without_line(text, start, end)


def _without_line(text: str, start: int, end: int) -> str:
    head, tail = text[:start], text[end:]
    blank = head[len(head.rstrip(" \t")) :]
    if head.rstrip(" \t").endswith("\n") and (rest := re.match(r"[ \t]*(\r?\n)", tail)):
        return head[: len(head) - len(blank)] + tail[rest.end() :]
    return head + tail.removeprefix(" ")


def _dumped(text: str, value: Any, margin: str) -> str:
    """A value as the file writes such values, on a line that begins with this margin."""
    return json.dumps(value, indent=_unit(text), ensure_ascii=False).replace("\n", f"{_break(text)}{margin}")


def _margin(text: str, at: int) -> str:
    """The blanks that the line of a place begins with."""
    line = text[text.rfind("\n", 0, at) + 1 : at].removeprefix(BOM)
    return line[: len(line) - len(line.lstrip(" \t"))]


def _unit(text: str) -> str:
    """One step of indentation, as the file has it."""
    match = _INDENT.search(text)
    return match[1] if match else "  "


def _break(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _replace(path: Path, content: bytes, before: os.stat_result | None) -> None:
    mode = 0o600 if before is None else stat.S_IMODE(before.st_mode)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if before is not None:
            _keep_owner(draft, before)
        os.chmod(draft, mode)
        os.replace(draft, path)
    except OSError as problem:
        raise BadConfig(f"the file cannot be written: {problem.strerror}", Origin(str(path))) from None
    finally:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)


def _keep_owner(draft: Path, before: os.stat_result) -> None:
    """Give a file to the owner of another, as far as we may: with sudo it would be root's from then on."""
    if sys.platform != "win32":
        with contextlib.suppress(PermissionError):
            os.chown(draft, before.st_uid, before.st_gid)
