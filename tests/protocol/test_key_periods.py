"""Rotation of sealing keys: which key seals at a time, and which others may be needed to open."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dovetail.protocol.key_periods import (
    CLOCK_DIFFERENCE_SECONDS,
    PERIOD_SECONDS,
    dropped_at,
    next_change,
    sealing_period,
    usable_periods,
)
from dovetail.protocol.mrtr import MAX_STATE_SECONDS

BOUNDARY = 1000.0 * PERIOD_SECONDS
TIMES = st.integers(int(BOUNDARY) - 2 * PERIOD_SECONDS, int(BOUNDARY) + 2 * PERIOD_SECONDS)


def test_one_key_is_usable_for_most_of_a_period() -> None:
    assert usable_periods(BOUNDARY + PERIOD_SECONDS / 2) == [1000]


def test_the_next_key_is_fetched_before_it_seals() -> None:
    assert usable_periods(BOUNDARY - CLOCK_DIFFERENCE_SECONDS - 1) == [999]
    assert usable_periods(BOUNDARY - CLOCK_DIFFERENCE_SECONDS) == [999, 1000]


def test_the_last_key_is_kept_until_what_it_sealed_has_expired() -> None:
    kept = MAX_STATE_SECONDS + CLOCK_DIFFERENCE_SECONDS
    assert usable_periods(BOUNDARY) == [1000, 999]
    assert usable_periods(BOUNDARY + kept - 1) == [1000, 999]
    assert usable_periods(BOUNDARY + kept) == [1000]
    assert dropped_at(999) == BOUNDARY + kept


@given(
    TIMES,
    st.floats(0, MAX_STATE_SECONDS - 1),
    st.floats(-CLOCK_DIFFERENCE_SECONDS + 1, CLOCK_DIFFERENCE_SECONDS - 1),
)
def test_every_replica_can_open_what_another_sealed_until_it_expires(now: float, age: float, difference: float) -> None:
    assert sealing_period(now) in usable_periods(now + age + difference) or age + difference > MAX_STATE_SECONDS


@given(TIMES)
def test_the_usable_keys_stay_the_same_until_the_next_change(now: float) -> None:
    change = next_change(now)
    assert now < change <= now + PERIOD_SECONDS
    assert usable_periods((now + change) / 2) == usable_periods(now)
    assert usable_periods(change) != usable_periods(now)
