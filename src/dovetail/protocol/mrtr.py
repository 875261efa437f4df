"""Rounds: what a suspended call has asked, heard and done, as a journal that answers it when it runs again.

Code outside a step may run again or be abandoned at any question. So a question is known by what it asks: its
key is a digest of the question and which occurrence of it this is. A key given by hand must still name the
same question, otherwise consent to one thing would answer another.
"""

from __future__ import annotations

from typing import Any

import msgspec

from .errors import INVALID_PARAMS, DovetailError, ProtocolError

MAX_ROUNDS = 32
MAX_STATE_SECONDS = 600


class JournalMismatch(DovetailError):
    """The handler asked something else than it did before; the message names the key."""


class Entry(msgspec.Struct, array_like=True):
    """One thing done: an answer to a question, or the outcome of a step."""

    digest: str
    value: Any = None
    failed: bool = False
    step: bool = False


class Asked(msgspec.Struct, array_like=True, frozen=True):
    """An open question: what it is a request for, and what it asks."""

    method: str
    digest: str = ""


class Record(msgspec.Struct):
    """What a sealed state holds."""

    id: str
    expires: float
    round: int
    journal: dict[str, Entry]
    asked: dict[str, Asked]
    by_hand: bool = False
    """The handler returned the questions itself."""
    state: str | None = None
    """What such a handler wants back."""
    heard: dict[str, tuple[str, Any]] = {}
    """What such a handler was answered, by key: the method and the answer."""


class Journal:
    """Answers and steps of one call over all its rounds."""

    def __init__(self, entries: dict[str, Entry] | None = None) -> None:
        self.entries = entries if entries is not None else {}
        self._seen: dict[str, int] = {}

    def answers(self) -> set[str]:
        """The keys of all questions that have an answer."""
        return {key for key, entry in self.entries.items() if not entry.step}

    def key(self, name: str, given: str | None = None, lane: str = "") -> str:
        """The key of the next question or step with this digest in one branch of the handler."""
        base = given if given is not None else digest(lane, name) if lane else name
        count = self._seen.get(base, 0)
        self._seen[base] = count + 1
        if given is not None and count:
            raise JournalMismatch(f"The key {given!r} was used twice in one call; give each question its own")
        return base if count == 0 else f"{base}.{count}"

    def find(self, key: str, digest: str) -> Entry | None:
        """What was recorded under a key; another digest than the one asked for is never reused."""
        entry = self.entries.get(key)
        if entry is not None and entry.digest != digest:
            raise JournalMismatch(
                f"{key!r} was asked before with other words or another form; the answer is not reused"
            )
        return entry

    def write(self, key: str, entry: Entry) -> None:
        """Record an answer or an outcome."""
        self.entries[key] = entry


def digest(*parts: object, size: int = 16) -> str:
    """A short name for a question, a step or the arguments of a call."""
    from hashlib import blake2b

    return blake2b(msgspec.json.encode(parts, order="deterministic"), digest_size=size).hexdigest()


def binding(principal: str | None, method: str, params: dict[str, Any]) -> bytes:
    """What a state is bound to: who asks, for what, with which arguments (mrtr, "Server Requirements")."""
    salient = {key: value for key, value in params.items() if key not in _NOT_SALIENT}
    return msgspec.json.encode([principal, method, digest(salient, size=32)])


_NOT_SALIENT = frozenset({"_meta", "inputResponses", "requestState"})


def too_many_rounds() -> ProtocolError:
    """The call asked more often than any call may."""
    return ProtocolError(INVALID_PARAMS, f"The call asked for input more than {MAX_ROUNDS} times")
