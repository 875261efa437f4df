"""Negotiation of the protocol revision, without I/O: which attempt follows which outcome.

2026-07-28 stdio and Streamable HTTP, "Backward Compatibility": a client tries `server/discover` first; a discover
result or an error of the envelope era means that era, any other error, or silence, means the handshake. Over HTTP,
where that is refused too, the server may speak HTTP+SSE. `client/negotiator` makes the attempts.
"""

from __future__ import annotations

import enum
from collections.abc import Hashable
from typing import Literal, TypeAlias

import msgspec

from dovetail.protocol.errors import MODERN_CODES, ConnectionLost, HttpStatus, InvalidAnswer, RemoteError
from dovetail.protocol.revisions import REVISIONS, Revision
from dovetail.types.bounded_dict import BoundedDict
from dovetail.types.capabilities import Implementation, ServerCapabilities

MAX_ERAS = 1000

KnownEra: TypeAlias = Literal["handshake", "envelope", "sse"]
"""The era of a server, or "sse": the handshake era over HTTP+SSE."""

_NOT_ABOUT_REVISIONS = frozenset({401, 403, 407, 429})
"""HTTP statuses that say nothing about the revisions of a server."""


class State(enum.Enum):
    """The attempt that is being made."""

    START = "choose the first attempt"
    HANDSHAKE_ASSUMED = "initialize, as before"
    SSE_ASSUMED = "initialize over HTTP+SSE, as before"
    PROBING = "server/discover on the newest revision"
    DISCOVERING = "server/discover on a given revision"
    INITIALIZING = "initialize"
    RESTARTED = "initialize on a new connection"
    LEGACY_SSE = "initialize over HTTP+SSE"
    AGREED = "agreed on a revision"
    FAILED = "failed"


class Event(enum.Enum):
    """Outcomes of attempts, and the facts that decide on the first one."""

    NOTHING_KNOWN = "nothing is known of the server"
    HANDSHAKE_KNOWN = "the era cache has the handshake era"
    SSE_KNOWN = "the era cache has HTTP+SSE"
    HANDSHAKE_PINNED = "the caller wants a handshake revision"
    ENVELOPE_PINNED = "the caller wants an envelope revision"
    ACCEPTED = "the server accepts"
    LEGACY_ANSWER = "an answer of the handshake era, or none"
    HANDSHAKE_OFFERED = "the server names handshake revisions"
    ENVELOPE_OFFERED = "the server names envelope revisions"
    REFUSED = "the server refuses, in a way that leaves another attempt"
    DISCONNECTED = "the server ends, and can be restarted"
    NOT_OFFERED = "there is no HTTP+SSE at this URL"
    FAILED = "any other error"


TRANSITIONS: dict[tuple[State, Event], State] = {
    (State.START, Event.NOTHING_KNOWN): State.PROBING,
    (State.START, Event.HANDSHAKE_KNOWN): State.HANDSHAKE_ASSUMED,
    (State.START, Event.SSE_KNOWN): State.SSE_ASSUMED,
    (State.START, Event.HANDSHAKE_PINNED): State.INITIALIZING,
    (State.START, Event.ENVELOPE_PINNED): State.DISCOVERING,
    # What the cache says may be outdated: then it is forgotten, and the first attempt chosen again.
    (State.HANDSHAKE_ASSUMED, Event.ACCEPTED): State.AGREED,
    (State.HANDSHAKE_ASSUMED, Event.REFUSED): State.START,
    (State.SSE_ASSUMED, Event.ACCEPTED): State.AGREED,
    (State.SSE_ASSUMED, Event.NOT_OFFERED): State.START,
    (State.PROBING, Event.ACCEPTED): State.AGREED,
    (State.PROBING, Event.LEGACY_ANSWER): State.INITIALIZING,
    (State.PROBING, Event.HANDSHAKE_OFFERED): State.INITIALIZING,
    (State.PROBING, Event.ENVELOPE_OFFERED): State.DISCOVERING,
    (State.PROBING, Event.REFUSED): State.LEGACY_SSE,
    (State.PROBING, Event.DISCONNECTED): State.RESTARTED,
    (State.DISCOVERING, Event.ACCEPTED): State.AGREED,
    (State.DISCOVERING, Event.REFUSED): State.LEGACY_SSE,
    (State.DISCOVERING, Event.DISCONNECTED): State.RESTARTED,
    (State.INITIALIZING, Event.ACCEPTED): State.AGREED,
    (State.INITIALIZING, Event.REFUSED): State.LEGACY_SSE,
    (State.INITIALIZING, Event.DISCONNECTED): State.RESTARTED,
    (State.RESTARTED, Event.ACCEPTED): State.AGREED,
    (State.LEGACY_SSE, Event.ACCEPTED): State.AGREED,
}
"""Every pair that is not in the table leads to `State.FAILED`."""


def next_state(state: State, event: Event) -> State:
    """The state that follows an event."""
    return TRANSITIONS.get((state, event), State.FAILED)


class Agreement(msgspec.Struct, frozen=True):
    """The result of a negotiation: the revision, and how the server describes itself."""

    revision: Revision
    server: Implementation | None
    capabilities: ServerCapabilities
    instructions: str | None


class EraCache:
    """The eras of servers that were contacted before (versioning: the era is a property of the server).

    Servers without a key are not remembered.
    """

    def __init__(self, max_eras: int = MAX_ERAS) -> None:
        self._eras = BoundedDict[Hashable, KnownEra](max_eras)

    def get(self, key: Hashable | None) -> KnownEra | None:
        """The era that a server had when it was last contacted."""
        return None if key is None else self._eras.get(key)

    def remember(self, key: Hashable | None, era: KnownEra) -> None:
        """Keep the era of a server for the next contact."""
        if key is not None:
            self._eras[key] = era

    def forget(self, key: Hashable | None) -> None:
        """Remove a server whose era proved wrong."""
        self._eras.pop(key, None)

    def clear(self) -> None:
        """Remove all servers."""
        self._eras.clear()


SHARED_ERAS = EraCache()
"""The cache of every client that is given no other."""


def first_event(pinned: Revision | None, known: KnownEra | None) -> Event:
    """The event that leaves the start, from the revision that the caller wants and the era that is known."""
    if known == "sse" and (pinned is None or pinned.era == "handshake"):
        return Event.SSE_KNOWN
    if pinned is not None:
        return Event.HANDSHAKE_PINNED if pinned.era == "handshake" else Event.ENVELOPE_PINNED
    return Event.HANDSHAKE_KNOWN if known == "handshake" else Event.NOTHING_KNOWN


def failure_event(
    state: State, problem: Exception, pinned: Revision | None, *, legacy_sse: bool, restartable: bool
) -> Event:
    """The event that an attempt ended in, given its error, the pinned revision, and what the target can do."""
    if state is State.PROBING and (event := _probe_event(problem)) is not None:
        return event
    if isinstance(problem, (HttpStatus, RemoteError)):
        if state is State.HANDSHAKE_ASSUMED:
            return Event.REFUSED
        fallback = pinned is None or pinned.era == "handshake"
        return Event.REFUSED if fallback and legacy_sse and may_speak_sse(problem) else Event.FAILED
    if isinstance(problem, ConnectionLost) and restartable and pinned is None:
        return Event.DISCONNECTED
    return Event.FAILED


def _probe_event(problem: Exception) -> Event | None:
    """The event that an error means for the era of the server; None where it means none."""
    if isinstance(problem, RemoteError):
        if problem.code not in MODERN_CODES:
            return Event.LEGACY_ANSWER
        offered = offered_revision(problem)
        if offered is None:
            return None
        return Event.ENVELOPE_OFFERED if offered.era == "envelope" else Event.HANDSHAKE_OFFERED
    if isinstance(problem, HttpStatus):
        return None if problem.status in _NOT_ABOUT_REVISIONS else Event.LEGACY_ANSWER
    return Event.LEGACY_ANSWER if isinstance(problem, InvalidAnswer) else None


def may_speak_sse(problem: Exception) -> bool:
    """True if a server that refuses a POST of initialize with this error may speak HTTP+SSE ("HTTP+SSE Transport")."""
    status = problem.status if isinstance(problem, (HttpStatus, RemoteError)) else None
    return status is not None and (400 <= status < 500 or status == 501) and status not in _NOT_ABOUT_REVISIONS


def offered_revision(problem: RemoteError) -> Revision | None:
    """The best revision of those that an error names; None where there is no common one."""
    try:
        names = msgspec.convert(problem.data, _Supported).supported
    except msgspec.ValidationError:
        return None
    return newest_of(names, "envelope") or newest_of(names, "handshake")


def newest_of(names: list[str], era: str) -> Revision | None:
    """The newest revision of an era among those that a server names."""
    common = [revision for name, revision in REVISIONS.items() if name in names and revision.era == era]
    return common[-1] if common else None


class _Supported(msgspec.Struct):
    supported: list[str]
