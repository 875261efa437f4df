"""The states of a server, as values."""

import pytest

from dovetail.host.servers.state import SETTLED, TRANSITIONS, Event, State


@pytest.mark.parametrize(
    ("events", "state"),
    [
        ("NEEDED APPROVED CONNECTED", "ready"),
        ("NEEDED APPROVED LOST", "waiting"),
        ("NEEDED APPROVED CONNECTED LOST APPROVED CONNECTED", "ready"),
        ("NEEDED GAVE_UP", "failed"),
        ("NEEDED STOPPED NEEDED", "asking"),
        ("NEEDED APPROVED GAVE_UP RESTARTED NEEDED", "asking"),
        ("NEEDED APPROVED CONNECTED STOPPED", "idle"),
    ],
)
def test_a_server_moves_from_state_to_state(events: str, state: str) -> None:
    current = State.IDLE
    for event in events.split():
        current = TRANSITIONS[current, Event[event]]
    assert current == state


def test_a_disabled_server_moves_nowhere() -> None:
    assert not [event for event in Event if (State.DISABLED, event) in TRANSITIONS]


def test_a_failed_server_moves_only_when_the_user_restarts_it() -> None:
    assert [event for event in Event if (State.FAILED, event) in TRANSITIONS] == [Event.RESTARTED]


def test_every_state_but_disabled_can_be_reached_and_left() -> None:
    others = set(State) - {State.DISABLED}
    assert set(TRANSITIONS.values()) == others == {state for state, _ in TRANSITIONS}
    assert others - SETTLED == {State.ASKING, State.STARTING}
