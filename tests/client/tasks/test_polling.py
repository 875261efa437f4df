"""Poll intervals, as values."""

import pytest

from dovetail.client.tasks.polling import MAX_BACKOFF, MAX_INTERVAL, MIN_INTERVAL, poll_pause


@pytest.mark.parametrize(("interval_ms", "seconds"), [(250, 0.25), (5000, 5.0), (None, 1.0), (0, 1.0), (-5, 1.0)])
def test_a_poll_waits_for_the_interval_of_the_server(interval_ms: int | None, seconds: float):
    assert poll_pause(interval_ms, 0) == seconds


def test_intervals_have_bounds():
    assert poll_pause(1, 0) == MIN_INTERVAL
    assert poll_pause(10**15, 0) == MAX_INTERVAL


def test_the_longer_nothing_changes_the_fewer_the_polls():
    pauses = [poll_pause(1000, quiet) for quiet in (0, 10, 60, 120, 600, 86_400)]
    assert pauses == [1.0, 1.0, 6.0, 12.0, MAX_BACKOFF, MAX_BACKOFF]


def test_backing_off_never_makes_polls_faster():
    assert poll_pause(60_000, 10**6) == 60.0
    assert poll_pause(60_000, 0, pushed=True) == 60.0


def test_polls_are_rare_where_changes_are_pushed():
    assert poll_pause(10, 0, pushed=True) == MAX_BACKOFF
