"""Multi round-trip requests: the journal of a suspended call, and the state that the client carries between rounds.

2026-07-28 basic/patterns/mrtr. A call that needs input returns `input_required`, and its handler may be run again from
the start when the input arrives: the journal then supplies the input responses and step outcomes of earlier rounds.
Handler code outside a step may run more than once, so that an input request is identified by its content: its key is
a digest of the request and the number of its occurrence. A key chosen by the author must still name the same request,
otherwise a user's consent to one thing would count for another.
"""

from __future__ import annotations

from typing import Any

import msgspec

from .errors import INVALID_PARAMS, DovetailError, ProtocolError

MAX_ROUNDS = 32
MAX_STATE_SECONDS = 600


class JournalMismatch(DovetailError):
    """The handler made another input request under a key than it did before; the message names the key."""


class JournalEntry(msgspec.Struct, array_like=True):
    """An input response, or the outcome of a step."""

    digest: str
    value: Any = None
    failed: bool = False
    step: bool = False


class PendingInput(msgspec.Struct, array_like=True, frozen=True):
    """An input request without a response yet: its method, and the digest of its content."""

    method: str
    digest: str = ""


class CallState(msgspec.Struct):
    """The content of a sealed request state."""

    id: str
    expires: float
    round: int
    journal: dict[str, JournalEntry]
    asked: dict[str, PendingInput]
    owner: str = ""
    """The client that it was sealed for, by its principal or its address; limits are counted for it."""
    replica: str = ""
    """The replica where the suspended handler waits; empty if it does not wait, or replicas share nothing."""
    by_hand: bool = False
    """The handler returned `InputRequired` itself, instead of calling `ctx.elicit` and the like."""
    state: str | None = None
    """The state of such a handler, which it gets back in the next round."""
    heard: dict[str, tuple[str, Any]] = {}
    """The input responses of such a handler, by key: method and response."""


class Journal:
    """The input responses and step outcomes of one call over all its rounds."""

    def __init__(self, entries: dict[str, JournalEntry] | None = None) -> None:
        self.entries = entries if entries is not None else {}
        self._occurrences: dict[str, int] = {}

    def answers(self) -> set[str]:
        """The keys of all input requests that have a response."""
        return {key for key, entry in self.entries.items() if not entry.step}

    def key(self, name: str, given: str | None = None, lane: str = "") -> str:
        """The key of the next input request or step with this digest in one branch of the handler."""
        base = given if given is not None else digest(lane, name) if lane else name
        count = self._occurrences.get(base, 0)
        self._occurrences[base] = count + 1
        if given is not None and count:
            raise JournalMismatch(f"The key {given!r} was used twice in one call; give each input request its own")
        return base if count == 0 else f"{base}.{count}"

    def find(self, key: str, digest: str) -> JournalEntry | None:
        """The entry under a key, or None; raises `JournalMismatch` if it belongs to a request with another digest."""
        entry = self.entries.get(key)
        if entry is not None and entry.digest != digest:
            raise JournalMismatch(
                f"{key!r} was requested before with another message or form; the earlier response is not reused"
            )
        return entry

    def write(self, key: str, entry: JournalEntry) -> None:
        """Add an input response or a step outcome."""
        self.entries[key] = entry


def digest(*parts: object, size: int = 16) -> str:
    """A short hash of an input request, of a step, or of the arguments of a call."""
    from hashlib import blake2b

    return blake2b(msgspec.json.encode(parts, order="deterministic"), digest_size=size).hexdigest()


def state_binding(principal: str | None, method: str, params: dict[str, Any]) -> bytes:
    """The data that a request state is bound to: principal, method and arguments (mrtr, "Server Requirements")."""
    bound_params = {key: value for key, value in params.items() if key not in _UNBOUND_PARAMS}
    return msgspec.json.encode([principal, method, digest(bound_params, size=32)])


_UNBOUND_PARAMS = frozenset({"_meta", "inputResponses", "requestState"})


def too_many_rounds() -> ProtocolError:
    """The error for a call with more rounds than allowed."""
    return ProtocolError(INVALID_PARAMS, f"The call asked for input more than {MAX_ROUNDS} times")
