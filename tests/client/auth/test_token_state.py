"""Token states as values."""

import pytest

from dovetail.client.auth.token_state import TRANSITIONS, Event, State, TokenState

LOGGED_IN = TokenState().after_load(None).after(Event.LOGIN, "a")


class TestTable:
    def test_every_state_but_the_first_can_be_reached(self):
        assert set(TRANSITIONS.values()) == set(State) - {State.UNLOADED}

    @pytest.mark.parametrize("state", State)
    def test_a_store_without_a_token_ends_every_state(self, state: State):
        assert TRANSITIONS[state, Event.MISSING] is State.NONE
        assert TRANSITIONS[state, Event.REMOVED] is State.NONE

    @pytest.mark.parametrize("state", State)
    def test_a_token_of_another_process_counts_as_valid(self, state: State):
        assert TRANSITIONS[state, Event.LOADED] is State.VALID

    def test_no_token_can_be_renewed_where_there_is_none(self):
        assert (State.NONE, Event.RENEWAL) not in TRANSITIONS
        assert (State.UNLOADED, Event.RENEWAL) not in TRANSITIONS

    def test_a_token_is_obtained_after_the_store_was_read(self):
        assert (State.UNLOADED, Event.LOGIN) not in TRANSITIONS


class TestToken:
    def test_a_token_begins_unloaded(self):
        assert not TokenState().loaded
        assert TokenState().after_load(None).loaded

    def test_a_token_from_a_login_is_untested_until_the_server_accepts_it(self):
        assert LOGGED_IN.untested and LOGGED_IN.from_login
        accepted = LOGGED_IN.after(Event.ACCEPTED)
        assert not accepted.untested and not accepted.from_login
        assert accepted.token == "a"

    def test_a_renewed_token_is_untested_and_not_from_a_login(self):
        renewed = LOGGED_IN.after(Event.ACCEPTED).after(Event.RENEWAL, "b")
        assert (renewed.untested, renewed.from_login, renewed.token) == (True, False, "b")

    def test_reading_the_same_token_again_changes_nothing(self):
        assert LOGGED_IN.after_load("a") == LOGGED_IN

    def test_another_token_in_the_store_takes_the_place_of_ours(self):
        other = LOGGED_IN.after_load("other")
        assert (other.state, other.token) == (State.VALID, "other")

    def test_a_token_that_was_removed_from_the_store_is_gone(self):
        assert LOGGED_IN.after_load(None) == TokenState(State.NONE)

    def test_acceptance_of_a_request_without_a_token_changes_nothing(self):
        none = TokenState().after_load(None)
        assert none.after(Event.ACCEPTED) == none


class TestRenewal:
    def test_a_renewal_that_failed_is_deferred(self):
        deferred = LOGGED_IN.after(Event.RENEWAL_FAILED, retry_at=110)
        assert not deferred.may_renew(109)
        assert deferred.may_renew(110)
        assert deferred.token == "a"

    def test_a_deferred_token_stays_deferred_when_it_is_accepted(self):
        deferred = LOGGED_IN.after(Event.RENEWAL_FAILED, retry_at=110).after(Event.ACCEPTED)
        assert not deferred.may_renew(109)

    def test_a_renewal_that_succeeds_ends_the_deferral(self):
        renewed = LOGGED_IN.after(Event.RENEWAL_FAILED, retry_at=110).after(Event.RENEWAL, "b")
        assert renewed.may_renew(0)

    def test_any_other_token_may_be_renewed(self):
        assert LOGGED_IN.may_renew(0)
