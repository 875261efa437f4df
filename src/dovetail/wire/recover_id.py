"""Recovery of the id of a message that cannot be parsed, so that its sender gets an error response.

A sender whose message is too long, or holds a value that the parser refuses, would otherwise wait for its timeout.
The scan is linear and looks at the outermost object only. An id counts only if the text after it shows that it is
complete; a message with two different ids has none.
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


class PartialMessage:
    """The id and the kind of a message that cannot be parsed, as far as its outermost object shows them."""

    __slots__ = ("_has_id", "_has_method", "_has_outcome", "_is_ambiguous", "id", "is_complete", "is_object")

    def __init__(self) -> None:
        self.id: Id | None = None
        self.is_object = False
        self.is_complete = False
        """The end of the outermost object was seen, so that no further member follows."""
        self._has_id = False
        self._has_method = False
        self._has_outcome = False
        self._is_ambiguous = False

    @property
    def reply(self) -> bool:
        """It is a response: it has a result or an error, and no method."""
        return self._has_outcome and not self._has_method

    @property
    def notification(self) -> bool:
        """It is a notification: it is complete, and has a method and no id."""
        return self.is_complete and self._has_method and not self._has_id and self.id is None

    def add_key(self, key: bytes) -> None:
        """Register a key of the outermost object."""
        self._has_id = self._has_id or key == b'"id"'
        self._has_method = self._has_method or key == b'"method"'
        self._has_outcome = self._has_outcome or key in (b'"result"', b'"error"')

    def add_member(self, member: list[bytes]) -> None:
        """Register a member of the outermost object: the tokens of a key, a colon and a value, if it is well-formed."""
        if member[:2] != [b'"id"', b":"] or self._is_ambiguous:
            return
        id = _identifier(member[2]) if len(member) == 3 else None
        if id is None or (self.id is not None and self.id != id):
            self.id, self._is_ambiguous = None, True
        else:
            self.id = id


def recover(text: bytes) -> PartialMessage:
    """Scan the top level of a message that the parser refused; brackets need not balance."""
    partial = _scan(text[:_SCAN_LIMIT])
    if len(text) > _SCAN_LIMIT:
        _scan_tail(partial, text[-_TAIL_LENGTH:])
    return partial


def recover_from_ends(head: bytes, tail: bytes) -> PartialMessage:
    """The same as `recover`, for a message of which only the start and the end were kept."""
    partial = _scan(head)
    _scan_tail(partial, tail)
    return partial


def _scan(text: bytes) -> PartialMessage:
    partial = PartialMessage()
    tokens = _TOKEN.finditer(text)
    first = next(tokens, None)
    if first is None or first.group() != b"{":
        return partial
    partial.is_object = True
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
                partial.add_member(member)
                partial.is_complete = True
                break
        if depth != 1:
            continue
        if token == b",":
            partial.add_member(member)
            member = []
        elif len(member) < 4:
            member.append(token)
            if len(member) == 2 and token == b":":
                partial.add_key(member[0])
    return partial


def _scan_tail(partial: PartialMessage, tail: bytes) -> None:
    partial.is_complete = tail.rstrip().endswith(b"}")
    if partial.is_object and partial.id is None and (match := _TAIL.search(tail)):
        partial.id = _identifier(match.group(1))


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
