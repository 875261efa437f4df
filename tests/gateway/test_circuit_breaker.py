"""The circuit breaker of a server: every pair of its table, the pauses, and what counts as a failure."""

from __future__ import annotations

import itertools

import pytest

from dovetail.gateway.servers.circuit_breaker import (
    FIRST_PAUSE,
    MAX_PAUSE,
    MAX_TIMEOUTS,
    PROBE_SECONDS,
    TRANSITIONS,
    CircuitBreaker,
    Event,
    State,
)

TABLE = {
    (State.CLOSED, Event.SUCCEEDED): State.CLOSED,
    (State.CLOSED, Event.FAILED): State.OPEN,
    (State.OPEN, Event.SUCCEEDED): State.CLOSED,
    (State.OPEN, Event.FAILED): State.OPEN,
    (State.OPEN, Event.PROBED): State.HALF_OPEN,
    (State.HALF_OPEN, Event.SUCCEEDED): State.CLOSED,
    (State.HALF_OPEN, Event.FAILED): State.OPEN,
    (State.HALF_OPEN, Event.PROBED): State.HALF_OPEN,
}


def breaker_in(state: State) -> CircuitBreaker:
    """A breaker that has got into a state by itself, at the time 0; its pause ends at 1."""
    breaker = CircuitBreaker()
    if state is not State.CLOSED:
        breaker.failed("it ended", 0.0)
    if state is State.HALF_OPEN:
        assert breaker.refusal(FIRST_PAUSE) is None
    assert breaker.state is state
    return breaker


@pytest.mark.parametrize(("state", "event"), list(itertools.product(State, Event)))
def test_each_pair_leads_where_the_table_says(state: State, event: Event) -> None:
    assert TRANSITIONS.get((state, event)) == TABLE.get((state, event))


def test_a_server_that_was_not_asked_has_the_first_pause_each_time() -> None:
    """As one whose launch is not approved yet."""
    breaker = CircuitBreaker()
    for number in range(5):
        breaker.failed("not approved", 100.0 * number, was_asked=False)
        assert breaker.pause(100.0 * number) == FIRST_PAUSE


@pytest.mark.parametrize("state", State)
def test_an_answer_closes_the_breaker(state: State) -> None:
    breaker = breaker_in(state)
    breaker.succeeded()
    assert (breaker.state, breaker.reason, breaker.refusal(0.0)) == (State.CLOSED, None, None)


@pytest.mark.parametrize("state", State)
def test_a_failure_opens_the_breaker_and_is_its_reason(state: State) -> None:
    breaker = breaker_in(state)
    breaker.failed("it is gone", 10.0)
    refusal = breaker.refusal(10.0)
    assert breaker.state is State.OPEN
    assert refusal is not None and refusal.reason == "it is gone" and refusal.retry_in > 0


def test_an_open_breaker_says_how_long_it_refuses() -> None:
    breaker = breaker_in(State.OPEN)
    refusal = breaker.refusal(0.25)
    assert refusal == ("it ended", 0.75)


def test_one_request_is_the_probe_and_the_others_are_refused() -> None:
    breaker = breaker_in(State.OPEN)
    assert breaker.refusal(FIRST_PAUSE) is None
    assert breaker.state is State.HALF_OPEN
    assert breaker.refusal(FIRST_PAUSE) == ("it ended", PROBE_SECONDS)


def test_a_probe_without_an_outcome_is_followed_by_another() -> None:
    breaker = breaker_in(State.HALF_OPEN)
    assert breaker.refusal(FIRST_PAUSE + PROBE_SECONDS - 0.1) is not None
    assert breaker.refusal(FIRST_PAUSE + PROBE_SECONDS) is None
    assert breaker.state is State.HALF_OPEN
    assert breaker.refusal(FIRST_PAUSE + PROBE_SECONDS) is not None


def test_a_probe_that_was_given_up_makes_room_for_another_at_once() -> None:
    breaker = breaker_in(State.HALF_OPEN)
    breaker.abandoned()
    assert breaker.refusal(FIRST_PAUSE) is None
    assert breaker.refusal(FIRST_PAUSE) is not None


def test_giving_up_changes_nothing_while_no_probe_is_sent() -> None:
    breaker = breaker_in(State.OPEN)
    breaker.abandoned()
    assert breaker.refusal(0.25) == ("it ended", 0.75)


def test_the_pause_doubles_with_each_failure_up_to_its_limit() -> None:
    breaker, pauses = CircuitBreaker(), list[float]()
    for _ in range(9):
        breaker.failed("no", 0.0)
        refusal = breaker.refusal(0.0)
        assert refusal is not None
        pauses.append(refusal.retry_in)
    assert pauses == [1, 2, 4, 8, 16, 32, MAX_PAUSE, MAX_PAUSE, MAX_PAUSE]


def test_a_success_makes_the_next_pause_short_again() -> None:
    breaker = CircuitBreaker()
    for _ in range(5):
        breaker.failed("no", 0.0)
    breaker.succeeded()
    breaker.failed("no", 0.0)
    assert breaker.refusal(0.0) == ("no", FIRST_PAUSE)


def test_several_timeouts_in_a_row_are_a_failure() -> None:
    breaker = CircuitBreaker()
    for _ in range(MAX_TIMEOUTS - 1):
        breaker.timed_out("no answer", 0.0)
    assert breaker.state is State.CLOSED
    breaker.timed_out("no answer", 0.0)
    assert (breaker.state, breaker.reason) == (State.OPEN, "no answer")


def test_an_answer_between_timeouts_begins_their_count_anew() -> None:
    breaker = CircuitBreaker()
    for _ in range(3):
        for _ in range(MAX_TIMEOUTS - 1):
            breaker.timed_out("no answer", 0.0)
        breaker.succeeded()
    assert breaker.state is State.CLOSED


def test_the_timeout_of_a_probe_is_a_failure_by_itself() -> None:
    breaker = breaker_in(State.HALF_OPEN)
    breaker.timed_out("no answer", FIRST_PAUSE)
    assert breaker.state is State.OPEN
