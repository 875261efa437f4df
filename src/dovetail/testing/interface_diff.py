"""Differences between two interfaces of a server, and which of them can break callers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias, cast

import msgspec

from .interface_reader import Interface
from .message_diff import difference, same

Json: TypeAlias = Mapping[str, Any]

_NOUNS = {
    "tools": "tool",
    "resources": "resource",
    "resource_templates": "resource template",
    "prompts": "prompt",
}
_WORDS = frozenset({"title", "description", "icons", "examples", "websiteUrl", "_meta", "$comment"})
"""Members for users and models, on which no program depends."""

_SHORT = 60
_ABSENT = object()


class InterfaceChange(msgspec.Struct, frozen=True):
    """One difference."""

    where: str
    """The subject, such as `tool "add"`."""
    what: str
    breaking: bool = False
    """True if a caller that worked before may fail now."""


def changes(before: Interface, after: Interface) -> list[InterfaceChange]:
    """All differences, the server itself first."""
    all_changes = [
        InterfaceChange("server", what)
        for name in ("server", "instructions")
        if (what := _changed(name, before, after)) is not None
    ]
    all_changes += _capabilities(before.get("capabilities") or {}, after.get("capabilities") or {})
    for kind, noun in _NOUNS.items():
        all_changes += _items(noun, before.get(kind) or {}, after.get(kind) or {})
    return all_changes


def report(differences: Iterable[InterfaceChange]) -> str:
    """The changes as text, grouped by subject; `!` marks those that can break callers."""
    lines: list[str] = []
    where = None
    for change in differences:
        if change.where != where:
            where = change.where
            lines.append(where)
        first, *rest = change.what.splitlines()
        lines.append(f"  {'!' if change.breaking else '~'} {first}")
        lines += [f"      {line}" for line in rest]
    return "\n".join(lines)


def _capabilities(before: Json, after: Json) -> Iterator[InterfaceChange]:
    for name in sorted({*before, *after}):
        if (what := _changed(name, before, after)) is not None:
            yield InterfaceChange("server", f"capability {what}", breaking=name not in after)


def _items(noun: str, before: Json, after: Json) -> Iterator[InterfaceChange]:
    for name in sorted({*before, *after}):
        where = f'{noun} "{name}"'
        if name not in after:
            yield InterfaceChange(where, "is gone", breaking=True)
        elif name not in before:
            yield InterfaceChange(where, "is new")
        else:
            yield from (InterfaceChange(where, what, breaking) for what, breaking in _fields(before[name], after[name]))


def _fields(before: Json, after: Json) -> Iterator[tuple[str, bool]]:
    for name in sorted({*before, *after}):
        if name == "inputSchema":
            yield from _schema("parameter", before.get(name) or {}, after.get(name) or {})
        elif name == "outputSchema" and name in before and name in after:
            yield from _schema("result", before[name], after[name])
        elif name == "arguments":
            yield from _arguments(before.get(name) or [], after.get(name) or [])
        elif (what := _changed(name, before, after)) is not None:
            yield what, name in ("outputSchema", "mimeType") and name in before


def _arguments(before: list[Json], after: list[Json]) -> Iterator[tuple[str, bool]]:
    """Compare the arguments of a prompt like parameters."""
    yield from _members(
        "argument",
        {item["name"]: item for item in before},
        {item["name"]: item for item in after},
        {item["name"] for item in before if item.get("required")},
        {item["name"] for item in after if item.get("required")},
    )


def _schema(noun: str, before: Json, after: Json) -> Iterator[tuple[str, bool]]:
    yield from _members(
        noun,
        before.get("properties") or {},
        after.get("properties") or {},
        set(before.get("required") or ()),
        set(after.get("required") or ()),
    )
    for name in sorted({*before, *after} - {"properties", "required"}):
        if (what := _changed(name, before, after)) is not None:
            yield f"{noun}s: {what}", name not in _WORDS


def _members(
    noun: str, before: Json, after: Json, needed: set[str], needed_now: set[str]
) -> Iterator[tuple[str, bool]]:
    gives = noun == "result"
    for name in sorted({*before, *after}):
        called = f'{noun} "{name}"'
        if name not in after:
            yield f"{called} is gone", True
        elif name not in before:
            must = name in needed_now and not gives
            yield f"{called} is new{' and required' if must else ''}", must
        else:
            if (name in needed) != (name in needed_now):
                must = name in needed_now
                yield f"{called} is {'now' if must else 'no longer'} required", must != gives
            yield from _member(called, before[name], after[name], gives=gives)


def _member(called: str, before: Any, after: Any, *, gives: bool) -> Iterator[tuple[str, bool]]:
    if not isinstance(before, dict) or not isinstance(after, dict):
        if not same(before, after):
            yield f"{called}: {_shown(before)} -> {_shown(after)}", True
        return
    old, new = cast(Json, before), cast(Json, after)
    for name in sorted({*old, *new} - {"name", "required"} if "name" in old else {*old, *new}):
        if (what := _changed(name, old, new)) is not None:
            yield f"{called}: {what}", _can_break(name, old, new, gives=gives)


def _can_break(name: str, before: Json, after: Json, *, gives: bool) -> bool:
    """True if the change of a keyword can break callers: additional choices break no caller that sends a value."""
    if name == "enum" and name in before and name in after:
        fewer, more = (after, before) if not gives else (before, after)
        return any(item not in fewer["enum"] for item in more["enum"])
    return name not in _WORDS and name != "default"


def _changed(name: str, before: Json, after: Json) -> str | None:
    old, new = before.get(name, _ABSENT), after.get(name, _ABSENT)
    if old is _ABSENT and new is _ABSENT:
        return None
    if old is _ABSENT:
        return f"{name} is new: {_shown(new)}"
    if new is _ABSENT:
        return f"{name} is gone; it was {_shown(old)}"
    if same(old, new):
        return None
    if len(short := f"{_shown(old)} -> {_shown(new)}") <= 2 * _SHORT and "\n" not in short:
        return f"{name}: {short}"
    return f"{name} changed:\n{_lines(old, new)}"


def _shown(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= _SHORT else f"{text[: _SHORT - 1]}…"


def _lines(before: Any, after: Any) -> str:
    """A diff of the lines of a text, or of the JSON of any other value."""
    import difflib

    if isinstance(before, str) and isinstance(after, str):
        shown = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=1)
        lines = list(shown)
    else:
        lines = difference(before, after).splitlines()
    return "\n".join(line for line in lines[2:] if not line.startswith("@@"))
