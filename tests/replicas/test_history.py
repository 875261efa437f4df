"""The rules for histories, with values: what keeps them, and what breaks each."""

import pytest

from tests.replicas.history import (
    PATIENCE,
    Answered,
    Changed,
    Event,
    Failed,
    Forwarded,
    Heard,
    Issued,
    Killed,
    Ran,
    Seen,
    Sent,
    SessionLost,
    StoreOutage,
    StreamOpened,
    Watching,
    check,
)

ASKING = Issued(1, "a", "ann", steps=("before", "after"))


def broken(*events: Event) -> set[str]:
    return {violation.rule for violation in check(events)}


@pytest.mark.parametrize(
    "events",
    [
        (),
        (Issued(1, "a", "ann"), Ran(2, "a", "body", 7), Answered(3, "a")),
        (ASKING, Ran(2, "a", "before", 7), Ran(3, "a", "after", 8), Answered(4, "a")),
        (
            Issued(1, "a", "ann", progress=2),
            Ran(2, "a", "body", 7),
            Heard(3, "a", 1, "s:1"),
            Heard(4, "a", 2, "s:2"),
            Answered(5, "a"),
        ),
        (Watching(1, "ann"), Changed(2, 1), Changed(3, 2), Seen(4, "ann", 2)),
        (Changed(1, 1), Watching(2, "ann")),
        (Watching(1, "ann"),),
    ],
    ids=["nothing", "a call", "a call in rounds", "progress", "two changes seen as one", "old change", "no change"],
)
def test_a_history_without_faults_keeps_all_rules(events: tuple[Event, ...]) -> None:
    assert check(events) == []


FAILED = Failed(4, "a", "OutcomeUnknown")
QUICK = Issued(1, "a", "ann", needs_store=False)
NEWEST = Issued(1, "a", "ann", needs_store=False, in_session=False)
EARLIER = (
    Issued(0.1, "z", "ann"),
    Sent(0.2, "z", 7, 0.4),
    Ran(0.3, "z", "body", 7),
    Answered(0.4, "z"),
)
"""A call of the same session that process 7 has answered."""
FORWARDED = (*EARLIER, Forwarded(0.3, "z", 7))
"""The same, where process 7 is a gateway: it has the connection of the session to the server behind it."""


@pytest.mark.parametrize(
    "events",
    [
        (Issued(1, "a", "ann"), Ran(2, "a", "body", 7), Killed(3, 7), FAILED),
        (Issued(1, "a", "ann"), Sent(2, "a", 7, 3), Killed(3, 7), FAILED),
        (ASKING, Ran(2, "a", "before", 7), Sent(2, "a", 8, 3), Killed(3, 8), FAILED),
        (StreamOpened(0.1, "ann", 7), Killed(0.5, 7, 0.6), Issued(1, "a", "ann"), Sent(1, "a", 8, 2, 202), FAILED),
        (Issued(1, "a", "ann"), Sent(2, "a", 7, 3, 503), StoreOutage(0.5, 3), FAILED),
        (Issued(1, "a", "ann"), Ran(2, "a", "body", 7), StoreOutage(1, 3, 7), FAILED),
        (QUICK, Sent(2, "a", 7, 3, 503), StoreOutage(0.5, 3), FAILED),
        (*EARLIER, QUICK, Sent(2, "a", 8, 3, 503), StoreOutage(0.5, 3), FAILED),
        (Killed(1, 7, 1.5), Issued(1.2, "a", "ann"), Sent(1.2, "a", 7, 1.3, 502), Failed(1.3, "a", "502")),
        (Issued(1, "a", "ann"), Ran(2, "a", "body", 7), Killed(3, 8), Answered(4, "a")),
        (Issued(1, "a", "ann"), Sent(1, "a", 8, 4), Forwarded(2, "a", 7), Killed(3, 7), FAILED),
        (*FORWARDED, Issued(1, "a", "ann"), Sent(1, "a", 8, 4), Killed(3, 7), FAILED),
        (*FORWARDED, QUICK, Sent(2, "a", 8, 3), StoreOutage(0.5, 3), FAILED),
    ],
    ids=[
        "it ran at the killed replica",
        "its request was at the killed replica",
        "one of its rounds was at the killed replica",
        "its stream was at the killed replica",
        "the store was away",
        "the store was away for its replica",
        "the store was away, and the replica had not served the session",
        "the store was away, and another replica had served the session",
        "its replica was about to end",
        "another replica was killed",
        "it was forwarded by the killed gateway",
        "the killed gateway had the connection of its session",
        "the store was away, and another gateway had the connection of its session",
    ],
)
def test_a_fault_excuses_the_failures_that_it_causes(events: tuple[Event, ...]) -> None:
    assert check(events) == []


@pytest.mark.parametrize(
    "events",
    [
        (Issued(1, "a", "ann"), Killed(3, 7), FAILED),
        (Issued(1, "a", "ann"), Sent(2, "a", 8, 3), Killed(3, 7), FAILED),
        (ASKING, Ran(2, "a", "before", 7), Sent(2, "a", 7, 3), Killed(3, 8), FAILED),
        (*EARLIER, QUICK, Sent(2, "a", 7, 3, 503), StoreOutage(0.5, 3), FAILED),
        (NEWEST, Sent(2, "a", 7, 3, 503), StoreOutage(0.5, 3), FAILED),
        (StreamOpened(0.1, "ann", 7), Killed(0.5, 8), Issued(1, "a", "ann"), Sent(1, "a", 8, 2, 202), FAILED),
        (*FORWARDED, Issued(1, "a", "ann"), Sent(1, "a", 8, 4), Killed(3, 9), FAILED),
        (*FORWARDED, NEWEST, Sent(1, "a", 8, 4), Killed(3, 7), FAILED),
        (*FORWARDED, QUICK, Sent(2, "a", 7, 3), StoreOutage(0.5, 3), FAILED),
    ],
    ids=[
        "its request reached no replica",
        "its request was at another replica than the killed one",
        "all its rounds were at other replicas than the killed one",
        "the store was away, and its replica had served the session",
        "the store was away, and it needs none",
        "its stream was at another replica than the killed one",
        "neither its gateway nor that with the connection of its session was killed",
        "it belongs to no session, and its gateway was not killed",
        "the store was away, and its gateway had the connection of its session",
    ],
)
def test_a_fault_excuses_no_failures_that_it_cannot_have_caused(events: tuple[Event, ...]) -> None:
    assert broken(*events) == {"every_failure_has_its_fault"}


def test_a_call_without_an_end_is_a_violation() -> None:
    assert broken(Issued(1, "a", "ann"), Ran(2, "a", "body", 7)) == {"every_call_ends_once"}


def test_a_call_with_two_ends_is_a_violation() -> None:
    events = (Issued(1, "a", "ann"), Ran(2, "a", "body", 7), Answered(3, "a"), Answered(4, "a"))
    assert broken(*events) == {"every_call_ends_once"}


def test_a_wrong_result_is_a_violation() -> None:
    assert broken(Issued(1, "a", "ann"), Ran(2, "a", "body", 7), Answered(3, "a", correct=False)) == {
        "every_result_is_correct"
    }


def test_an_answered_call_that_did_not_run_is_a_violation() -> None:
    assert broken(Issued(1, "a", "ann"), Answered(3, "a")) == {"every_answered_call_ran_exactly_once"}


def test_an_answered_call_that_ran_twice_is_a_violation_even_if_a_replica_was_killed_between() -> None:
    ran = (Ran(2, "a", "body", 7), Killed(3, 7), Ran(4, "a", "body", 8))
    assert broken(Issued(1, "a", "ann"), *ran, Answered(5, "a")) == {"every_answered_call_ran_exactly_once"}


def test_a_step_of_an_answered_call_that_ran_twice_is_a_violation() -> None:
    ran = (Ran(2, "a", "before", 7), Ran(3, "a", "before", 8), Ran(4, "a", "after", 8))
    assert broken(ASKING, *ran, Answered(5, "a")) == {"every_answered_call_ran_exactly_once"}


def test_a_step_of_a_failed_call_that_ran_twice_is_a_violation() -> None:
    ran = (Ran(2, "a", "before", 7), Killed(3, 7), Ran(4, "a", "before", 8))
    assert broken(ASKING, *ran, Failed(5, "a", "OutcomeUnknown")) == {"no_step_ran_twice"}


@pytest.mark.parametrize("numbers", [(1, 1, 2), (2,), (1, 3), (2, 1), (1,)], ids=str)
def test_an_event_that_comes_twice_or_too_early_or_not_at_all_is_a_violation(numbers: tuple[int, ...]) -> None:
    heard = [Heard(3 + at, "a", number) for at, number in enumerate(numbers)]
    events = (Issued(1, "a", "ann", progress=2), Ran(2, "a", "body", 7), *heard, Answered(9, "a"))
    assert broken(*events) == {"every_event_arrives_once"}


def test_an_event_id_that_comes_twice_is_a_violation() -> None:
    heard = (Heard(3, "a", 1, "s:1"), Heard(4, "a", 2, "s:1"))
    events = (Issued(1, "a", "ann", progress=2), Ran(2, "a", "body", 7), *heard, Answered(9, "a"))
    assert broken(*events) == {"every_event_arrives_once"}


def test_a_lost_session_is_a_violation() -> None:
    assert broken(SessionLost(1, "ann")) == {"no_session_is_lost"}


def test_a_subscriber_that_misses_the_last_change_is_a_violation() -> None:
    rule = {"every_subscriber_hears_of_the_last_change"}
    assert broken(Watching(1, "ann"), Changed(2, 1), Seen(3, "ann", 1), Changed(4, 2)) == rule
    assert broken(Watching(1, "ann"), Changed(2, 1)) == rule


def test_a_subscriber_that_sees_an_older_value_after_a_newer_one_is_a_violation() -> None:
    events = (Changed(2, 1), Changed(3, 2), Seen(4, "ann", 2), Seen(5, "ann", 1), Seen(6, "ann", 2))
    assert broken(Watching(1, "ann"), *events) == {"every_subscriber_hears_of_the_last_change"}


@pytest.mark.parametrize(
    "fault",
    [(), (Killed(3, 8),), (Killed(0.5, 7),), (StoreOutage(0.1, 0.9),), (StoreOutage(2, 3, 8),)],
    ids=[
        "no fault",
        "another replica was killed",
        "killed before the call",
        "the store was away before the call",
        "the store was away for another replica",
    ],
)
def test_a_failure_without_its_fault_is_a_violation(fault: tuple[Event, ...]) -> None:
    events = (Issued(1, "a", "ann"), Ran(2, "a", "body", 7), *fault, Failed(4, "a", "OutcomeUnknown"))
    assert broken(*events) == {"every_failure_has_its_fault"}


def test_a_failure_long_after_its_fault_is_a_violation() -> None:
    events = (Issued(1, "a", "ann"), Ran(2, "a", "body", 7), Killed(3, 7))
    assert broken(*events, Failed(4 + PATIENCE, "a", "OutcomeUnknown")) == {"every_failure_has_its_fault"}


def test_a_violation_shows_its_events_in_their_order() -> None:
    ran, answered = Ran(2, "a", "body", 7), Answered(3, "a", correct=False)
    issued = Issued(1, "a", "ann")
    (violation,) = check([answered, ran, issued])
    assert violation.events == (issued, ran, answered)
