"""The states of a call that can be suspended, as values; what such a call does is in test_suspendable_call.py."""

from dovetail.server.mrtr.suspendable_call import TRANSITIONS, Event, State


def test_only_a_running_call_is_suspended_and_only_answers_resume_it() -> None:
    assert [start for (start, event), end in TRANSITIONS.items() if end is State.SUSPENDED] == [State.RUNNING]
    assert TRANSITIONS[State.SUSPENDED, Event.ANSWERED] is State.RUNNING


def test_a_call_that_has_ended_stays_ended() -> None:
    assert {end for (start, _), end in TRANSITIONS.items() if start is State.ENDED} == {State.ENDED}


def test_a_suspended_call_may_end_by_itself() -> None:
    assert TRANSITIONS[State.SUSPENDED, Event.FINISHED] is State.ENDED


def test_every_state_but_the_last_can_be_left() -> None:
    assert {start for (start, _), end in TRANSITIONS.items() if end is not start} == {State.RUNNING, State.SUSPENDED}
