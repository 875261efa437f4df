"""Negotiation as values: the table of transitions, the events, and the cache of eras."""

from typing import Any

import pytest

from dovetail.client.negotiation import (
    TRANSITIONS,
    EraCache,
    Event,
    KnownEra,
    State,
    failure_event,
    first_event,
    may_speak_sse,
    next_state,
)
from dovetail.protocol.errors import ConnectionLost, HttpStatus, InvalidAnswer, RemoteError, Timeout
from dovetail.protocol.revisions import HANDSHAKE, NEWEST, NEWEST_HANDSHAKE
from dovetail.protocol.revisions.revision import Revision

LOST = ConnectionLost("gone")


def status(code: int) -> HttpStatus:
    return HttpStatus("no", code, "http://x")


def error(code: int, data: Any = None, http: int | None = None) -> RemoteError:
    problem = RemoteError(code, "no", data)
    problem.status = http
    return problem


class TestTable:
    def test_every_state_can_be_reached_and_left(self):
        reached = {State.START, State.FAILED} | set(TRANSITIONS.values())
        left = {state for state, _ in TRANSITIONS}
        assert reached == set(State)
        assert left == set(State) - {State.AGREED, State.FAILED}

    def test_an_accepted_attempt_ends_every_negotiation(self):
        for state in set(State) - {State.START, State.AGREED, State.FAILED}:
            assert next_state(state, Event.ACCEPTED) is State.AGREED

    def test_an_error_of_no_other_kind_fails_every_attempt(self):
        for state in State:
            assert next_state(state, Event.FAILED) is State.FAILED

    def test_no_walk_goes_on_forever(self):
        """Only an outdated cache leads back to the start, and it is forgotten by then."""
        back = {(state, event) for (state, event), after in TRANSITIONS.items() if after is State.START}
        assert back == {(State.HANDSHAKE_ASSUMED, Event.REFUSED), (State.SSE_ASSUMED, Event.NOT_OFFERED)}
        order = [*State]
        for (state, event), after in TRANSITIONS.items():
            assert (state, event) in back or order.index(after) > order.index(state)

    @pytest.mark.parametrize(
        ("events", "end"),
        [
            ([Event.NOTHING_KNOWN, Event.ACCEPTED], State.AGREED),
            ([Event.NOTHING_KNOWN, Event.LEGACY_ANSWER, Event.ACCEPTED], State.AGREED),
            ([Event.NOTHING_KNOWN, Event.LEGACY_ANSWER, Event.REFUSED, Event.ACCEPTED], State.AGREED),
            ([Event.NOTHING_KNOWN, Event.LEGACY_ANSWER, Event.REFUSED, Event.NOT_OFFERED], State.FAILED),
            ([Event.NOTHING_KNOWN, Event.ENVELOPE_OFFERED, Event.ACCEPTED], State.AGREED),
            ([Event.NOTHING_KNOWN, Event.DISCONNECTED, Event.ACCEPTED], State.AGREED),
            ([Event.NOTHING_KNOWN, Event.DISCONNECTED, Event.DISCONNECTED], State.FAILED),
            ([Event.HANDSHAKE_KNOWN, Event.REFUSED, Event.NOTHING_KNOWN, Event.ACCEPTED], State.AGREED),
            ([Event.HANDSHAKE_KNOWN, Event.DISCONNECTED], State.FAILED),
            ([Event.SSE_KNOWN, Event.ACCEPTED], State.AGREED),
            ([Event.SSE_KNOWN, Event.FAILED], State.FAILED),
            ([Event.SSE_KNOWN, Event.NOT_OFFERED, Event.NOTHING_KNOWN, Event.ACCEPTED], State.AGREED),
            ([Event.ENVELOPE_PINNED, Event.FAILED], State.FAILED),
            ([Event.HANDSHAKE_PINNED, Event.REFUSED, Event.ACCEPTED], State.AGREED),
        ],
    )
    def test_events_lead_to_their_end(self, events: list[Event], end: State):
        state = State.START
        for event in events:
            assert state not in (State.AGREED, State.FAILED)
            state = next_state(state, event)
        assert state is end


class TestFirstEvent:
    @pytest.mark.parametrize(
        ("pinned", "known", "event"),
        [
            (None, None, Event.NOTHING_KNOWN),
            (None, "envelope", Event.NOTHING_KNOWN),
            (None, "handshake", Event.HANDSHAKE_KNOWN),
            (None, "sse", Event.SSE_KNOWN),
            (NEWEST_HANDSHAKE, None, Event.HANDSHAKE_PINNED),
            (NEWEST_HANDSHAKE, "handshake", Event.HANDSHAKE_PINNED),
            (NEWEST_HANDSHAKE, "sse", Event.SSE_KNOWN),
            (NEWEST, None, Event.ENVELOPE_PINNED),
            (NEWEST, "sse", Event.ENVELOPE_PINNED),
        ],
    )
    def test_the_pinned_revision_and_the_known_era_decide(
        self, pinned: Revision | None, known: KnownEra | None, event: Event
    ):
        assert first_event(pinned, known) is event


class TestFailures:
    @pytest.mark.parametrize(
        ("problem", "event"),
        [
            (error(-32601), Event.LEGACY_ANSWER),
            (InvalidAnswer("?"), Event.LEGACY_ANSWER),
            (status(400), Event.LEGACY_ANSWER),
            (status(500), Event.LEGACY_ANSWER),
            (status(401), Event.FAILED),
            (status(429), Event.FAILED),
            (error(-32022, {"supported": [NEWEST.name]}), Event.ENVELOPE_OFFERED),
            (error(-32022, {"supported": list(HANDSHAKE)}), Event.HANDSHAKE_OFFERED),
            (error(-32022, {"supported": ["1900-01-01"]}), Event.FAILED),
            (error(-32022, {"supported": ["1900-01-01"]}, 400), Event.REFUSED),
            (error(-32022), Event.FAILED),
            (LOST, Event.DISCONNECTED),
            (Timeout("late"), Event.FAILED),
        ],
    )
    def test_an_error_of_the_probe_tells_the_era(self, problem: Exception, event: Event):
        assert failure_event(State.PROBING, problem, None, legacy_sse=True, restartable=True) is event

    def test_a_server_that_cannot_be_restarted_is_lost(self):
        assert failure_event(State.PROBING, LOST, None, legacy_sse=False, restartable=False) is Event.FAILED

    def test_a_pinned_server_is_not_restarted(self):
        event = failure_event(State.INITIALIZING, LOST, NEWEST_HANDSHAKE, legacy_sse=False, restartable=True)
        assert event is Event.FAILED

    @pytest.mark.parametrize(
        ("pinned", "legacy_sse", "event"),
        [
            (None, True, Event.REFUSED),
            (NEWEST_HANDSHAKE, True, Event.REFUSED),
            (NEWEST, True, Event.FAILED),
            (None, False, Event.FAILED),
        ],
    )
    def test_a_refused_handshake_leads_to_sse_where_that_is_possible(
        self, pinned: Revision | None, legacy_sse: bool, event: Event
    ):
        outcome = failure_event(State.INITIALIZING, status(405), pinned, legacy_sse=legacy_sse, restartable=False)
        assert outcome is event

    @pytest.mark.parametrize("problem", [status(401), status(500), error(-32601)])
    def test_an_assumption_that_is_refused_in_any_way_is_given_up(self, problem: Exception):
        event = failure_event(State.HANDSHAKE_ASSUMED, problem, None, legacy_sse=False, restartable=False)
        assert event is Event.REFUSED

    @pytest.mark.parametrize(
        ("problem", "may"),
        [
            (status(404), True),
            (status(405), True),
            (status(501), True),
            (status(401), False),
            (status(403), False),
            (status(500), False),
            (error(-32600, http=400), True),
            (error(-32600), False),
            (LOST, False),
        ],
    )
    def test_a_client_error_may_come_from_a_server_of_http_and_sse(self, problem: Exception, may: bool):
        assert may_speak_sse(problem) is may


class TestEraCache:
    def test_the_era_of_a_server_is_remembered_until_it_proves_wrong(self):
        eras, key = EraCache(), object()
        assert eras.get(key) is None
        eras.remember(key, "handshake")
        assert eras.get(key) == "handshake"
        eras.remember(key, "envelope")
        assert eras.get(key) == "envelope"
        eras.forget(key)
        assert eras.get(key) is None

    def test_a_server_without_a_key_is_not_remembered(self):
        eras = EraCache()
        eras.remember(None, "envelope")
        assert eras.get(None) is None

    def test_the_oldest_era_is_forgotten_above_the_bound(self):
        eras = EraCache(2)
        for key in range(3):
            eras.remember(key, "handshake")
        assert [eras.get(key) for key in range(3)] == [None, "handshake", "handshake"]

    def test_a_cleared_cache_remembers_no_server(self):
        eras = EraCache()
        eras.remember("x", "sse")
        eras.clear()
        assert eras.get("x") is None
