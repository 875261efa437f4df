"""JSON, with comments and commas at the end, where every value knows its place in the text.

Strict otherwise: an object that names a key twice is refused, since readers would disagree about which one counts.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from typing import Any, TypeAlias

import msgspec

MAX_DEPTH = 100

_SKIP = re.compile(r"(?:[ \t\r\n]+|//[^\n]*|/\*(?s:.*?)\*/)*")
_STRING = re.compile(r'"[^"\\\x00-\x1f]*(?:\\.[^"\\\x00-\x1f]*)*"')
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_WORDS = {"t": ("true", True), "f": ("false", False), "n": ("null", None)}


class Scalar(msgspec.Struct, frozen=True):
    """A text, a number, true, false or null; `start` and `end` are offsets into the text."""

    start: int
    end: int
    value: str | int | float | bool | None


class Array(msgspec.Struct, frozen=True):
    """Values in a row."""

    start: int
    end: int
    items: tuple[Node, ...]


class Member(msgspec.Struct, frozen=True):
    """One `"key": value` of an object."""

    key: Scalar
    value: Node
    comma: int | None
    """Offset of the comma after it, if there is one."""


class Object(msgspec.Struct, frozen=True):
    """Values by name, in the order of the text."""

    start: int
    end: int
    members: dict[str, Member]

    def get(self, name: str) -> Node | None:
        """The value under a name."""
        member = self.members.get(name)
        return None if member is None else member.value


Node: TypeAlias = Scalar | Array | Object


class BadJson(ValueError):
    """The text is not what it is to be; `offset` is where."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.offset = offset


class LineIndex:
    """Line numbers, from 1, of offsets in a text."""

    def __init__(self, text: str) -> None:
        self._ends = [match.start() for match in re.finditer("\n", text)]

    def at(self, offset: int) -> int:
        """The line."""
        return bisect_left(self._ends, offset) + 1


def parse(text: str) -> Node:
    """Read a whole text; `BadJson` where that cannot be done."""
    reader = _Reader(text)
    root = reader.value(reader.skip(0), 0)
    end = reader.skip(root.end)
    if end != len(text):
        raise BadJson("nothing more may stand after the value", end)
    return root


def plain(node: Node) -> Any:
    """The value without its places."""
    if isinstance(node, Object):
        return {name: plain(member.value) for name, member in node.members.items()}
    return [plain(item) for item in node.items] if isinstance(node, Array) else node.value


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text

    def skip(self, at: int) -> int:
        """Past blanks and comments."""
        match = _SKIP.match(self._text, at)
        end = at if match is None else match.end()
        if self._text.startswith("/*", end):
            raise BadJson("this comment is never closed", end)
        return end

    def value(self, at: int, depth: int) -> Node:
        if depth > MAX_DEPTH:
            raise BadJson(f"more than {MAX_DEPTH} values stand inside of each other", at)
        char = self._text[at : at + 1]
        if char == "{":
            return self._object(at, depth)
        if char == "[":
            return self._array(at, depth)
        if char == '"':
            return self._string(at)
        if char in _WORDS:
            word, value = _WORDS[char]
            if self._text.startswith(word, at):
                return Scalar(at, at + len(word), value)
        if char and char in "-0123456789":
            return self._number(at)
        raise BadJson("a value is missing here" if char in ("", ",", "]", "}") else "this is no JSON", at)

    def _object(self, start: int, depth: int) -> Object:
        members: dict[str, Member] = {}
        at = self.skip(start + 1)
        while not self._text.startswith("}", at):
            if not self._text.startswith('"', at):
                raise BadJson("a key in double quotes is missing here", at)
            key = self._string(at)
            name = str(key.value)
            if name in members:
                first = LineIndex(self._text).at(members[name].key.start)
                raise BadJson(f"the key {name!r} stands here again, after line {first}", at)
            at = self.skip(key.end)
            if not self._text.startswith(":", at):
                raise BadJson(f"a colon is missing after {name!r}", at)
            value = self.value(self.skip(at + 1), depth + 1)
            at, comma = self._after(value.end, "}")
            members[name] = Member(key, value, comma)
        return Object(start, at + 1, members)

    def _array(self, start: int, depth: int) -> Array:
        items: list[Node] = []
        at = self.skip(start + 1)
        while not self._text.startswith("]", at):
            items.append(self.value(at, depth + 1))
            at, _ = self._after(items[-1].end, "]")
        return Array(start, at + 1, tuple(items))

    def _after(self, at: int, closing: str) -> tuple[int, int | None]:
        """The offset of the next value or the end, and of the comma before it."""
        at = self.skip(at)
        if self._text.startswith(",", at):
            return self.skip(at + 1), at
        if not self._text.startswith(closing, at):
            raise BadJson(f"a comma or {closing} is missing here", at)
        return at, None

    def _string(self, at: int) -> Scalar:
        match = _STRING.match(self._text, at)
        if match is None:
            raise BadJson("this text is never closed, or holds a line break or control character", at)
        raw = match[0]
        if "\\" not in raw:
            return Scalar(at, match.end(), raw[1:-1])
        try:
            value = str(json.loads(raw))
            value.encode()
        except json.JSONDecodeError as problem:
            raise BadJson("there is no such escape in a text", at + problem.pos) from None
        except UnicodeEncodeError:
            raise BadJson("this text holds half of a character (a lone surrogate)", at) from None
        return Scalar(at, match.end(), value)

    def _number(self, at: int) -> Scalar:
        match = _NUMBER.match(self._text, at)
        if match is None:
            raise BadJson("this is no number", at)
        try:
            return Scalar(at, match.end(), json.loads(match[0]))
        except ValueError:
            raise BadJson("this number is too long", at) from None
