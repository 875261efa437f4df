"""Circuit breaker: keeps requests from a server that fails, and lets one through from time to time to see if it works.

Without I/O: time is an argument.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

FIRST_PAUSE = 1.0
MAX_PAUSE = 60.0
"""Seconds for which no request is sent after a failure; they double with each further one."""

PROBE_SECONDS = 30.0
"""Seconds after which another probe is sent if the last one has no outcome, as if it was cancelled."""

MAX_TIMEOUTS = 5
"""Requests in a row without an answer after which a server that is connected counts as failed."""


class State(enum.Enum):
    """The states of a circuit breaker."""

    CLOSED = "requests are sent"
    OPEN = "requests are refused until the pause is over"
    HALF_OPEN = "one request is sent as a probe, others are refused"


class Event(enum.Enum):
    """The events that change them."""

    SUCCEEDED = "the server has answered, or was connected to"
    FAILED = "the server could not be connected to, or does not answer any more"
    PROBED = "the pause is over, and a request comes"


TRANSITIONS: dict[tuple[State, Event], State] = {
    (State.CLOSED, Event.SUCCEEDED): State.CLOSED,
    (State.CLOSED, Event.FAILED): State.OPEN,
    (State.OPEN, Event.PROBED): State.HALF_OPEN,
    # The probe before has no outcome, because whoever sent it has cancelled it.
    (State.HALF_OPEN, Event.PROBED): State.HALF_OPEN,
    # Requests that were sent before the failure may still end, in either way.
    (State.OPEN, Event.SUCCEEDED): State.CLOSED,
    (State.OPEN, Event.FAILED): State.OPEN,
    (State.HALF_OPEN, Event.SUCCEEDED): State.CLOSED,
    (State.HALF_OPEN, Event.FAILED): State.OPEN,
}


class Refused(NamedTuple):
    """The reason why no request is sent now, and the seconds until the next may be."""

    reason: str
    retry_in: float


class CircuitBreaker:
    """The breaker of one server."""

    def __init__(self) -> None:
        self.state = State.CLOSED
        self.reason: str | None = None
        """The last failure, while the breaker is not closed."""
        self._failures = 0
        self._timeouts = 0
        self._until = 0.0

    def refusal(self, now: float) -> Refused | None:
        """The refusal of a request; None if it may be sent, which makes it the probe if the breaker was open."""
        if self.state is State.CLOSED:
            return None
        if now >= self._until:
            self.state = TRANSITIONS[self.state, Event.PROBED]
            self._until = now + PROBE_SECONDS
            return None
        return Refused(self.reason or "it failed", max(self._until - now, 0.0))

    def pause(self, now: float) -> float:
        """The seconds until a request may be sent."""
        return 0.0 if self.state is State.CLOSED else max(self._until - now, 0.0)

    def abandoned(self) -> None:
        """The probe was given up without an outcome: the next request is one."""
        if self.state is State.HALF_OPEN:
            self._until = 0.0

    def succeeded(self) -> None:
        """The server works."""
        self._failures = self._timeouts = 0
        self.reason = None
        self.state = TRANSITIONS[self.state, Event.SUCCEEDED]

    def failed(self, reason: str, now: float, *, was_asked: bool = True) -> None:
        """The server does not work: wait longer after each failure in a row, if it was asked at all."""
        self.state = TRANSITIONS[self.state, Event.FAILED]
        self.reason = reason
        if not was_asked:
            self._until = now + FIRST_PAUSE
            return
        self._until = now + min(FIRST_PAUSE * 2**self._failures, MAX_PAUSE)
        self._failures = min(self._failures + 1, 10)

    def timed_out(self, reason: str, now: float) -> None:
        """A request got no answer in time; several in a row are a failure."""
        self._timeouts += 1
        if self._timeouts >= MAX_TIMEOUTS or self.state is State.HALF_OPEN:
            self.failed(reason, now)
