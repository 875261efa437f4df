"""Local checks on what servers say of themselves and their tools: nothing leaves the machine."""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, cast

import msgspec

from dovetail.policy.definitions import Definition

from .confusables import find_look_alike, mixed_alphabets, skeleton
from .injection_phrases import find_injection_phrases
from .invisible_chars import find_hidden

LONG = 20_000
"""Characters; the longest descriptions of well-known servers have about a fifth of it."""
LONG_NAME = 128
MAX_CONCERNS = 20
"""Of one definition: a user who has read so many has read enough."""
MAX_DEPTH = 64
"""Levels of a definition that are looked at; one that has more is a concern."""
MAX_LOOKED_AT = 1_000_000
"""Characters of one server that are looked at, which takes two seconds at the worst; what is not is a concern."""

_TOO_DEEP = "\0"
"""In place of a path: no member is called so."""

_CACHED = 2_000
"""Characters of the longest text whose judgement is kept."""

_ADDRESSES = frozenset({"$schema", "$id", "$ref"})
"""Members of schemas that are no prose."""
_WORD = re.compile(r"[A-Za-z0-9]+(?:[_.\-/:]+[A-Za-z0-9]+)*")
_TELLING = re.compile(r"[_.\-]|[a-z][A-Z]")
"""Names made of several words; those of one word stand in every other sentence."""


_SEPARATOR = re.compile(r"[_.\-/:]+")
_THIS_TOOL = re.compile(r"\bthis\s+(?:tool|function)", re.IGNORECASE)
_CALL = (
    r"\b(?:call|calling|invoke|invoking|run|running|execute|executing)\s+(?:the\s+)?(?:(?:tool|function)\s+)?[`'\"]?"
)
_TOOL_NAME = re.compile(r"[A-Za-z0-9_.\-]+")
"""Characters that the names of tools may have (tools, "Tool Names")."""


class Concern(msgspec.Struct, frozen=True):
    """Something that looks wrong, and where it stands."""

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where} {self.what}."


class Inspector:
    """Looks at what one server says; `others` are the names of the tools of every server, also of its own."""

    def __init__(self, server: str, others: Mapping[str, Collection[str]]) -> None:
        self._server = server
        self._left = MAX_LOOKED_AT
        self._own = frozenset(name for name in others.get(server, ()) if _TELLING.search(name))
        self._foreign = _foreign(server, others)
        self._alike: dict[str, list[tuple[str, str]]] = {}
        for key, names in others.items():
            for name in names:
                self._alike.setdefault(skeleton(name), []).append((key, name))

    def definition(self, definition: Definition) -> tuple[Concern, ...]:
        """Everything that looks wrong about a definition."""
        concerns: dict[Concern, None] = {}
        for what in self._about_name(definition) if definition.name else ():
            concerns[Concern(f"The name of {definition}", what)] = None
        guides = definition.kind in ("instructions", "prompt")
        parameters = frozenset(_member_names(definition.content))
        for path, text in _texts(definition.content, ""):
            if path == _TOO_DEEP:
                what = f"was not looked at as a whole: it is nested deeper than {MAX_DEPTH} levels"
                concerns[Concern(_capital(str(definition)), what)] = None
                continue
            self._left -= len(text)
            if self._left < 0:
                what = f"was not looked at: {self._server!r} says more than {MAX_LOOKED_AT} characters"
                concerns[Concern(_capital(str(definition)), what)] = None
                break
            where = f"{_capital(str(definition))}, {path}:" if path != "instructions" else "The instructions:"
            for what in self._about_text(text, path, parameters, is_for_model=guides):
                concerns[Concern(where, f"it {what}")] = None
            if len(concerns) >= MAX_CONCERNS:
                break
        return tuple(concerns)[:MAX_CONCERNS]

    def _about_name(self, definition: Definition) -> Iterator[str]:
        name = definition.name
        yield from find_hidden(name)
        if definition.kind != "template" and len(name) > LONG_NAME:
            yield f'is {len(name)} characters long, where {LONG_NAME} are the most (tools, "Tool Names")'
        if definition.kind != "template":
            yield from mixed_alphabets(name)
        if definition.kind == "tool":
            if _TOOL_NAME.fullmatch(name) is None:
                yield 'has characters other than letters, digits, and _ . - (tools, "Tool Names")'
            for key, other in self._alike.get(skeleton(name), ()):
                if other.casefold() != name.casefold() and not _is_original(name, other):
                    whose = "the same server" if key == self._server else f"the server {key!r}"
                    yield f"looks like {other!r} of {whose}"

    def _about_text(self, text: str, path: str, parameters: frozenset[str], *, is_for_model: bool) -> Iterator[str]:
        if len(text) > LONG:
            yield f"is {len(text)} characters long, more than anybody reads"
        if path.rsplit(".", 1)[-1] in _ADDRESSES:
            yield from find_hidden(text)
            return
        judge = _judged if len(text) <= _CACHED else _judge
        yield from judge(text, is_for_model, self._own if _THIS_TOOL.search(text) else frozenset[str]())
        mentioned = dict.fromkeys(word for word in _WORD.findall(text[:LONG]) if word in self._foreign)
        mentioned = [word for word in mentioned if word not in parameters or _is_called(word, text[:LONG])]
        yield from (f"mentions {word!r}, a tool of the server {self._foreign[word]!r}" for word in mentioned)


def inspect_names(servers: Collection[str]) -> tuple[Concern, ...]:
    """Keys of servers that look like one another, or like something that they are not."""
    concerns: list[Concern] = []
    for key in sorted(servers):
        concerns += [
            Concern(f"The name of the server {key!r}", what) for what in (*find_hidden(key), *mixed_alphabets(key))
        ]
        other = find_look_alike(key, [name for name in servers if name > key])
        if other is not None:
            concerns.append(Concern(f"The name of the server {key!r}", f"looks like that of the server {other!r}"))
    return tuple(concerns)


def _is_original(name: str, other: str) -> bool:
    """True if the other one is the imitation: nobody takes a tool away by giving theirs a name that looks like it."""
    return name.lower() == skeleton(name) != other.lower()


def _judge(text: str, is_for_model: bool, own: frozenset[str]) -> tuple[str, ...]:
    return (*find_hidden(text), *find_injection_phrases(text, is_for_model=is_for_model, own=own))


_judged = functools.lru_cache(maxsize=8192)(_judge)
"""The lists of a server come again and again, and hardly ever change."""


def _foreign(server: str, others: Mapping[str, Collection[str]]) -> dict[str, str]:
    """The names of tools that only other servers have, and that are no ordinary words, with whose they are.

    A server says `update_issue` where it means its own `jira_update_issue`: that is no tool of others.
    """
    own = {end for name in others.get(server, ()) for end in _endings(name)}
    owners: dict[str, str] = {}
    for key, names in others.items():
        if key != server:
            owners.update((name, key) for name in names if _TELLING.search(name) and name not in own)
            owners.update((f"{key}__{name}", key) for name in names)
    return owners


def _is_called(name: str, text: str) -> bool:
    """True if a text says to call a tool of this name; a parameter of the same name does not hide that."""
    word = re.escape(name)
    return re.search(rf"{_CALL}{word}\b|\b{word}[`'\"]?\s+(?:tool|function)\b", text, re.IGNORECASE) is not None


def _endings(name: str) -> Iterator[str]:
    """A name, and what is left of it without a prefix."""
    yield name
    yield from (name[match.end() :] for match in _SEPARATOR.finditer(name))


def _member_names(value: Any, depth: int = 0) -> Iterator[str]:
    """The names of all members: those of a schema are the parameters of a tool, which its description explains."""
    if depth > MAX_DEPTH:
        return
    if isinstance(value, dict):
        for name, inner in cast("dict[str, Any]", value).items():
            yield name
            yield from _member_names(inner, depth + 1)
    elif isinstance(value, list):
        for inner in cast("list[Any]", value):
            yield from _member_names(inner, depth + 1)


def _texts(value: Any, path: str, depth: int = 0) -> Iterator[tuple[str, str]]:
    """Every text in a definition with its path, and every name of a member that is itself chosen by the server.

    What is nested too deeply to be read is told with the path `_TOO_DEEP`.
    """
    if isinstance(value, str):
        yield path, value
    elif depth > MAX_DEPTH:
        yield _TOO_DEEP, ""
    elif isinstance(value, dict):
        for name, inner in cast("dict[str, Any]", value).items():
            if name == "icons" and not path:  # pictures, which no model reads
                continue
            below = f"{path}.{name}" if path else name
            if len(name) > 40 or not name.isascii():
                yield f"the member {name[:40]!r} of {path or 'it'}", name
            yield from _texts(inner, below, depth + 1)
    elif isinstance(value, list):
        for index, inner in enumerate(cast("list[Any]", value)):
            yield from _texts(inner, f"{path}[{index}]", depth + 1)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
