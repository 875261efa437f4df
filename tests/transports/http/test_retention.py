"""How much of a stream is remembered: within bounds what was read, and always what was not."""

from __future__ import annotations

from dovetail.transports.http.retention import MAX_BYTES, MAX_EVENTS, Retention


def test_a_short_stream_is_kept_whole() -> None:
    retention = Retention()
    assert retention.keep([10, 20], unread=2) == 2
    assert retention.keep([30], unread=0) == 3


def test_of_what_was_read_the_newest_bytes_are_kept() -> None:
    retention = Retention()
    assert retention.keep([MAX_BYTES // 2] * 4, unread=0) == 2


def test_of_what_was_read_the_newest_events_are_kept() -> None:
    assert Retention().keep([1] * (MAX_EVENTS + 7), unread=0) == MAX_EVENTS


def test_what_nobody_has_read_is_kept_whatever_its_size() -> None:
    retention = Retention()
    assert retention.keep([MAX_BYTES] * 3, unread=3) == 3
    assert retention.keep([1], unread=1) == 1


def test_the_newest_event_is_kept_however_large() -> None:
    assert Retention().keep([MAX_BYTES * 2], unread=0) == 1
