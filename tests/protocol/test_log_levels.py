"""Severities in the order of RFC 5424."""

from dovetail.protocol.log_levels import LEVELS, is_at_least


def test_the_levels_from_the_least_to_the_worst():
    assert LEVELS == ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")


def test_a_message_reaches_whoever_asked_for_its_level_or_a_lesser_one():
    for place, level in enumerate(LEVELS):
        assert [is_at_least(level, threshold) for threshold in LEVELS] == [n <= place for n in range(len(LEVELS))]
