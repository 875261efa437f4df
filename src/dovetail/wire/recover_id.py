"""Finding out whom to answer when a message cannot be read.

A caller whose message is too long, or holds a value that no parser here takes, would otherwise wait
for its timeout. The scan is linear and looks at the outermost object only. An id counts once what follows
it shows that it is whole; a message that shows two different ones has none.
"""

from __future__ import annotations

import re

from .jsonrpc import Id

# Possessive, so that a quote that is never closed is looked at once and not from every quote after it.
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[{}\[\],:]|[^\s"{}\[\],:]++', re.DOTALL)
_TAIL = re.compile(rb'(?<=[{,\s])"id"\s*:\s*("[^"\\]{0,200}"|-?\d{1,19})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*\Z')
_INTEGER = re.compile(rb"-?(?:0|[1-9]\d{0,18})\Z")
_PLAIN = re.compile(rb'"([^"\\\x00-\x1f]{0,200})"\Z')
_SCAN_LIMIT = 1 << 20
_TAIL_LENGTH = 512


class Outline:
    """What the outermost object of an unreadable message shows: its id, and whether it is an answer."""

    __slots__ = ("_called", "_doubtful", "_outcome", "id", "is_object")

    def __init__(self) -> None:
        self.id: Id | None = None
        self.is_object = False
        self._called = False
        self._outcome = False
        self._doubtful = False

    @property
    def reply(self) -> bool:
        """It has a result or an error, and no method."""
        return self._outcome and not self._called

    def note_key(self, key: bytes) -> None:
        """A key of the outermost object begins a member."""
        self._called = self._called or key == b'"method"'
        self._outcome = self._outcome or key in (b'"result"', b'"error"')

    def note_member(self, member: list[bytes]) -> None:
        """A member of the outermost object has ended: a key, a colon and a value, if it is well-formed."""
        if member[:2] != [b'"id"', b":"] or self._doubtful:
            return
        found = _identifier(member[2]) if len(member) == 3 else None
        if found is None or (self.id is not None and self.id != found):
            self.id, self._doubtful = None, True
        else:
            self.id = found


def outline(text: bytes) -> Outline:
    """Read the top level of a message that the parser refused; brackets need not balance."""
    seen = _scan(text[:_SCAN_LIMIT])
    if len(text) > _SCAN_LIMIT:
        _look_at_tail(seen, text[-_TAIL_LENGTH:])
    return seen


def outline_of_ends(head: bytes, tail: bytes) -> Outline:
    """The same for a message of which only the beginning and the end were kept."""
    seen = _scan(head)
    _look_at_tail(seen, tail)
    return seen


def _scan(text: bytes) -> Outline:
    seen = Outline()
    tokens = _TOKEN.finditer(text)
    first = next(tokens, None)
    if first is None or first.group() != b"{":
        return seen
    seen.is_object = True
    depth = 1
    member: list[bytes] = []
    for match in tokens:
        token = match.group()
        if token in _OPENING:
            depth += 1
            continue
        if token in _CLOSING:
            depth -= 1
            if depth == 0:
                seen.note_member(member)
                break
        if depth != 1:
            continue
        if token == b",":
            seen.note_member(member)
            member = []
        elif len(member) < 4:
            member.append(token)
            if len(member) == 2 and token == b":":
                seen.note_key(member[0])
    return seen


def _look_at_tail(seen: Outline, tail: bytes) -> None:
    if seen.is_object and seen.id is None and (found := _TAIL.search(tail)):
        seen.id = _identifier(found.group(1))


def _identifier(token: bytes) -> Id | None:
    if _INTEGER.match(token):
        return int(token)
    if plain := _PLAIN.match(token):
        try:
            return plain.group(1).decode()
        except UnicodeDecodeError:
            return None
    return None


_OPENING = frozenset({b"{", b"["})
_CLOSING = frozenset({b"}", b"]"})
