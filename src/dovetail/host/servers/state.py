"""States of a server of a host.

The supervisor makes the moves; nothing else changes the state of a server, except that a new configuration begins anew
with `disabled`, `failed` (it cannot be started) or `idle`.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from types import MappingProxyType


class State(enum.StrEnum):
    """State of a server; each is equal to its name as a text, such as "ready"."""

    DISABLED = "disabled"
    IDLE = "idle"
    """Not started: nothing of it was needed yet."""
    ASKING = "asking"
    """The user is asked whether it may start."""
    STARTING = "starting"
    READY = "ready"
    WAITING = "waiting"
    """It was lost, and is restarted after a pause."""
    FAILED = "failed"


class Event(enum.Enum):
    """Events that move a server from one state to another."""

    NEEDED = "something that the server offers is needed"
    APPROVED = "the launch is approved"
    CONNECTED = "the server is connected and its lists are fetched"
    LOST = "the start failed or the connection was lost"
    GAVE_UP = "a refusal, an error that would repeat itself, or too many failures in a row"
    STOPPED = "the user stopped the start, or the host closes the server"
    RESTARTED = "the user restarts the server"


_RUNNING = (State.ASKING, State.STARTING, State.READY, State.WAITING)

TRANSITIONS: Mapping[tuple[State, Event], State] = MappingProxyType(
    {
        (State.IDLE, Event.NEEDED): State.ASKING,
        (State.ASKING, Event.APPROVED): State.STARTING,
        (State.WAITING, Event.APPROVED): State.STARTING,
        (State.STARTING, Event.CONNECTED): State.READY,
        **{(state, Event.LOST): State.WAITING for state in _RUNNING},
        **{(state, Event.GAVE_UP): State.FAILED for state in _RUNNING},
        **{(state, Event.STOPPED): State.IDLE for state in _RUNNING},
        **{(state, Event.RESTARTED): State.IDLE for state in (*_RUNNING, State.IDLE, State.FAILED)},
    }
)

SETTLED = frozenset({State.IDLE, State.READY, State.FAILED, State.DISABLED, State.WAITING})
"""States in which a server is ready, or will not be soon."""
