"""YAML configuration, as Goose has it: the block of one key is read and edited as text, all other lines stay.

Only the part of YAML that programs write is read: blocks, plain and quoted scalars, texts over several lines, and
lists and objects on one line. Anchors, tags and the like are refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from dovetail.config.jsonc import Array, BadJson, Member, Node, Object, Scalar

TABLE = "extensions"

_KEY = re.compile(
    r"""("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^\s\-?:,\[\]{}#&*!|>'"%@`][^#]*?|-[^\s#][^#]*?)\s*:(?:\s+(.*)|$)"""
)
_COMMENT = re.compile(r"(?:^|\s)#.*$")
_QUOTED = re.compile(r"""("(?:[^"\\]|\\.)*"|'(?:[^']|'')*')\s*(?:#.*)?$""")
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][-+]?\d+)?")
_PLAIN = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_./ @+=-]*(?<! )")
_WORDS: dict[str, bool | None] = {
    "true": True,
    "True": True,
    "TRUE": True,
    "false": False,
    "False": False,
    "FALSE": False,
    "null": None,
    "Null": None,
    "NULL": None,
    "~": None,
    "": None,
}
_UNQUOTED_WORDS = frozenset({*_WORDS, "yes", "no", "on", "off", "y", "n"})
_MAX_DEPTH = 50


class _Line(NamedTuple):
    indent: int
    text: str
    start: int
    """Offset of the first character that is no blank."""
    end: int
    """Offset behind the line end."""


def parse_yaml(text: str) -> Object:
    """The key `extensions` of a text; `BadJson`, with the offset, where that cannot be read."""
    lines, block = _lines(text), _block(text)
    if block is None:
        return Object(0, len(text), {})
    head, inside = block
    reader = _Reader(text, inside)
    value = lines[head].text.partition(":")[2]
    place = Scalar(lines[head].start, lines[head].end, TABLE)
    stripped = _COMMENT.sub("", value).strip()
    if stripped:
        node = reader.scalar(stripped, lines[head].start, 0)
    else:
        node = reader.block(0)[0] if reader.lines else Scalar(lines[head].start, lines[head].start, None)
        if reader.lines and reader.at != len(reader.lines):
            raise BadJson("the indentation does not fit", reader.lines[reader.at].start)
    if isinstance(node, Scalar) and node.value is None:
        node = Object(node.start, node.end, {})
    return Object(0, len(text), {TABLE: Member(place, node, None)})


def put_yaml_entry(text: str, key: str, entry: Mapping[str, Any]) -> str:
    """Add an entry to `extensions`, in place of one with its key."""
    table = parse_yaml(text).get(TABLE)
    if table is not None and not isinstance(table, Object):
        raise ValueError(f"{TABLE} is no mapping")
    if table is not None and key in table.members:
        text = remove_yaml_entry(text, key)
    lines, block = _lines(text), _block(text)
    line = "\r\n" if "\r\n" in text else "\n"
    if block is None:
        head = text if not text or text.endswith("\n") else text + line
        return head + line.join([f"{TABLE}:", *_dumped(key, entry, "  ")]) + line
    head, inside = block
    if not inside:
        first = lines[head]
        comment = _COMMENT.search(text[first.start : first.end].rstrip("\r\n"))
        words = f"{TABLE}:{comment[0] if comment else ''}"
        return text[: first.start] + line.join([words, *_dumped(key, entry, "  ")]) + line + text[first.end :]
    margin, last = " " * inside[0].indent, inside[-1].end
    gap = "" if text[:last].endswith("\n") else line
    return text[:last] + gap + line.join(_dumped(key, entry, margin)) + line + text[last:]


def remove_yaml_entry(text: str, key: str) -> str:
    """Take an entry of `extensions` out."""
    table = parse_yaml(text).get(TABLE)
    if not isinstance(table, Object) or key not in table.members:
        raise ValueError(f"{TABLE} has no {key!r}")
    inside = (_block(text) or (0, []))[1]
    if not inside:
        raise ValueError(f"{TABLE} is written in a form that cannot be edited here")
    start = table.members[key].key.start
    index = next(at for at, line in enumerate(inside) if line.start == start)
    stop = index + 1
    while stop < len(inside) and inside[stop].indent > inside[index].indent:
        stop += 1
    return text[: start - inside[index].indent] + text[inside[stop - 1].end :]


def _lines(text: str) -> list[_Line]:
    lines: list[_Line] = []
    at = 0
    for whole in text.splitlines(keepends=True):
        content = whole.rstrip("\r\n")
        indent = len(content) - len(content.lstrip(" "))
        lines.append(_Line(indent, content.strip(), at + indent, at + len(whole)))
        at += len(whole)
    return lines


def _block(text: str) -> tuple[int, list[_Line]] | None:
    """The line of the key, and the lines of its block without blank ones and comments; None if it is not there."""
    lines = _lines(text)
    heads = [at for at, line in enumerate(lines) if line.indent == 0 and re.match(rf"{TABLE}\s*:(?:\s|$)", line.text)]
    if len(heads) > 1:
        raise BadJson(f"{TABLE} stands in the file twice", lines[heads[1]].start)
    if not heads:
        return None
    inside: list[_Line] = []
    for line in lines[heads[0] + 1 :]:
        if not line.text or line.text.startswith("#"):
            continue
        if line.indent == 0:
            break
        inside.append(line)
    return heads[0], inside


class _Reader:
    """Reads the lines of a block into nodes."""

    def __init__(self, text: str, lines: list[_Line]) -> None:
        self._text = text
        self.lines = lines
        self.at = 0

    def block(self, depth: int) -> tuple[Node, int]:
        """The mapping or list that begins at the current line."""
        first = self.lines[self.at]
        if depth > _MAX_DEPTH:
            raise BadJson(f"it is nested more than {_MAX_DEPTH} levels deep", first.start)
        if first.text == "-" or first.text.startswith("- "):
            return self._list(first.indent, depth), self.at
        members: dict[str, Member] = {}
        start = end = first.start
        while self.at < len(self.lines) and self.lines[self.at].indent == first.indent:
            line = self.lines[self.at]
            match = _KEY.match(line.text)
            if match is None:
                raise BadJson("a line is to be `key: value`", line.start)
            name = str(self.scalar(match[1], line.start, depth).value) if match[1][0] in "\"'" else match[1]
            if name in members:
                raise BadJson(f"the key {name!r} stands there twice", line.start)
            self.at += 1
            value = self._value((match[2] or "").strip(), line, depth)
            members[name] = Member(Scalar(line.start, line.start + len(match[1]), name), value, None)
            end = self.lines[self.at - 1].end
        return Object(start, end, members), self.at

    def _list(self, indent: int, depth: int) -> Array:
        items: list[Node] = []
        start = self.lines[self.at].start
        while self.at < len(self.lines) and self.lines[self.at].indent == indent:
            line = self.lines[self.at]
            if line.text != "-" and not line.text.startswith("- "):
                break
            inner = line.text[1:].strip()
            if inner and _KEY.match(inner) and inner[0] not in "\"'[{":
                raise BadJson("a list of mappings cannot be read here", line.start)
            self.at += 1
            items.append(self._value(inner, line, depth))
        return Array(start, self.lines[self.at - 1].end, tuple(items))

    def _value(self, words: str, line: _Line, depth: int) -> Node:
        """The value behind a key or a dash, on its line or in the lines below."""
        if words[:1] in ("|", ">"):
            return self._long_text(words, line)
        if not _COMMENT.sub("", words).strip():
            below = self.lines[self.at] if self.at < len(self.lines) else None
            dashed = below is not None and (below.text == "-" or below.text.startswith("- "))
            if below is not None and (below.indent > line.indent or (dashed and below.indent == line.indent)):
                if dashed and line.text.startswith("-") and below.indent == line.indent:
                    return Scalar(line.start, line.end, None)
                return self.block(depth + 1)[0]
            return Scalar(line.start, line.start, None)
        node = self.scalar(words, line.start, depth)
        if self.at < len(self.lines) and self.lines[self.at].indent > line.indent:
            raise BadJson("a value that goes on in the next line cannot be read here", self.lines[self.at].start)
        return node

    def _long_text(self, words: str, line: _Line) -> Scalar:
        parts: list[str] = []
        first = self.at
        while self.at < len(self.lines) and self.lines[self.at].indent > line.indent:
            parts.append(self.lines[self.at].text)
            self.at += 1
        joined = ("\n" if words[0] == "|" else " ").join(parts)
        ending = "" if "-" in words else "\n"
        return Scalar(line.start, self.lines[self.at - 1].end, joined + ending if self.at > first else "")

    def scalar(self, words: str, start: int, depth: int) -> Any:
        """A value on one line."""
        if words[:1] in ("[", "{"):
            node, rest = self._flow(words, start, depth)
            if _COMMENT.sub("", " " + rest).strip():
                raise BadJson("a list or object is to end on its line", start)
            return node
        if words[:1] in ("&", "*", "!", "%", "@", "`", "?"):
            raise BadJson("anchors, aliases and tags cannot be read here", start)
        if words[:1] in ("'", '"'):
            match = _QUOTED.match(words)
            if match is None:
                raise BadJson("a quoted text is to end on its line", start)
            return Scalar(start, start + len(words), _unquoted(match[1], start))
        plain = _COMMENT.sub("", words).strip()
        return Scalar(start, start + len(words), _plain_value(plain))

    def _flow(self, words: str, start: int, depth: int) -> tuple[Node, str]:
        """A list or object on one line, and what follows it."""
        if depth > _MAX_DEPTH:
            raise BadJson(f"it is nested more than {_MAX_DEPTH} levels deep", start)
        closing = "]" if words[0] == "[" else "}"
        items: list[Node] = []
        members: dict[str, Member] = {}
        rest = words[1:].lstrip()
        while not rest.startswith(closing):
            name = None
            if closing == "}":
                key = re.match(r"""("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^,:\[\]{}]+?)\s*:\s*""", rest)
                if key is None:
                    raise BadJson("an object on one line is to be { key: value }", start)
                name = str(_unquoted(key[1], start)) if key[1][0] in "\"'" else key[1]
                rest = rest[key.end() :]
            if rest[:1] in ("[", "{"):
                item, rest = self._flow(rest, start, depth + 1)
            else:
                match = re.match(r"""("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^,\[\]{}]*)""", rest)
                word = match[1] if match else ""
                value = _unquoted(word, start) if word[:1] in ("'", '"') else _plain_value(word.strip())
                item, rest = Scalar(start, start, value), rest[len(word) :]
            if name is None:
                items.append(item)
            else:
                members[name] = Member(Scalar(start, start, name), item, None)
            rest = rest.lstrip()
            if rest.startswith(","):
                rest = rest[1:].lstrip()
            elif not rest.startswith(closing):
                raise BadJson("a list or object is to end on its line", start)
        node: Node = Array(start, start, tuple(items)) if closing == "]" else Object(start, start, members)
        return node, rest[1:]


def _unquoted(word: str, start: int) -> str:
    if word[0] == "'":
        return word[1:-1].replace("''", "'")
    try:
        return str(json.loads(word))
    except ValueError:
        raise BadJson("an escape of this text cannot be read here", start) from None


def _plain_value(word: str) -> str | int | float | bool | None:
    if word in _WORDS:
        return _WORDS[word]
    if _INTEGER.fullmatch(word):
        return int(word) if len(word) < 100 else word
    return float(word) if _FLOAT.fullmatch(word) else word


def _dumped(key: str, entry: Mapping[str, Any], margin: str) -> list[str]:
    lines = [f"{margin}{_word(key)}:"]
    inner = margin + "  "
    for name, value in entry.items():
        if isinstance(value, Mapping) and value:
            lines.append(f"{inner}{_word(name)}:")
            pairs = cast("Mapping[str, Any]", value)
            lines += [f"{inner}  {_word(each)}: {_word(item)}" for each, item in pairs.items()]
        elif isinstance(value, list) and value:
            lines.append(f"{inner}{_word(name)}:")
            lines += [f"{inner}- {_word(item)}" for item in cast("list[Any]", value)]
        else:
            lines.append(f"{inner}{_word(name)}: {_word(value)}")
    return lines


def _word(value: Any) -> str:
    """A scalar, or an empty list or mapping, as YAML; a text is quoted unless it can be nothing else."""
    if not isinstance(value, str):
        return json.dumps(value)
    is_plain = _PLAIN.fullmatch(value) and isinstance(_plain_value(value), str) and value.lower() not in _UNQUOTED_WORDS
    return value if is_plain and (value[0].isalpha() or value[0] == "/") else json.dumps(value)
