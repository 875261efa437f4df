"""States of an access token: how it was obtained, and whether the server has accepted it. Without I/O.

The state decides what a refusal means: a token that was accepted before may have expired, and is renewed; one that was
just renewed is followed by a login; one that a login just gave leaves nothing to try.
"""

from __future__ import annotations

import enum

import msgspec

RETRY_SECONDS = 10.0
"""Seconds that a token whose renewal failed is used before the next attempt, unless it expires."""


class State(enum.Enum):
    """The token of one login."""

    UNLOADED = "the store was not read"
    NONE = "no token"
    VALID = "accepted by the server, or from the store"
    LOGGED_IN = "from a login, not accepted yet"
    RENEWED = "from a renewal, not accepted yet"
    DEFERRED = "renewal failed, to be tried later"


class Event(enum.Enum):
    """Events that change the state of a token."""

    LOADED = "the store has another token"
    MISSING = "the store has no token"
    LOGIN = "a login gives a token"
    RENEWAL = "the refresh token gives a token"
    RENEWAL_FAILED = "the renewal fails"
    ACCEPTED = "the server accepts a request"
    REMOVED = "logout, or the token is for another server"


_HELD = (State.VALID, State.LOGGED_IN, State.RENEWED, State.DEFERRED)

TRANSITIONS: dict[tuple[State, Event], State] = {
    **{(state, Event.LOADED): State.VALID for state in State},
    **{(state, Event.MISSING): State.NONE for state in State},
    **{(state, Event.REMOVED): State.NONE for state in State},
    **{(state, Event.LOGIN): State.LOGGED_IN for state in State if state is not State.UNLOADED},
    **{(state, Event.RENEWAL): State.RENEWED for state in _HELD},
    **{(state, Event.RENEWAL_FAILED): State.DEFERRED for state in _HELD},
    (State.LOGGED_IN, Event.ACCEPTED): State.VALID,
    (State.RENEWED, Event.ACCEPTED): State.VALID,
}
"""A pair that is not in the table changes nothing."""


class TokenState(msgspec.Struct, frozen=True):
    """The state of the current token; the methods return the state that follows."""

    state: State = State.UNLOADED
    token: str | None = None
    retry_at: float = 0.0

    def after(self, event: Event, token: str | None = None, *, retry_at: float = 0.0) -> TokenState:
        """The state after an event, which may bring another token."""
        state = TRANSITIONS.get((self.state, event), self.state)
        if state is State.NONE:
            return TokenState(state)
        return TokenState(state, self.token if token is None else token, retry_at or self.retry_at)

    def after_load(self, token: str | None) -> TokenState:
        """The state after the store was read: another process may have replaced or removed the token."""
        if token is None:
            return self.after(Event.MISSING)
        return self if token == self.token else self.after(Event.LOADED, token)

    @property
    def loaded(self) -> bool:
        """True if the store was read."""
        return self.state is not State.UNLOADED

    @property
    def untested(self) -> bool:
        """True if the server has not accepted the token yet, so that renewing a refused one would change nothing."""
        return self.state in (State.LOGGED_IN, State.RENEWED)

    @property
    def from_login(self) -> bool:
        """True if a login just gave the token, so that another login would change nothing."""
        return self.state is State.LOGGED_IN

    def may_renew(self, now: float) -> bool:
        """True if a token that expires soon is to be renewed now: not right after a renewal has failed."""
        return self.state is not State.DEFERRED or now >= self.retry_at
