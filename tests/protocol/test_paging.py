"""Pages and their sealed cursors."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.protocol.errors import INVALID_PARAMS, ProtocolError
from dovetail.protocol.paging import Pager
from dovetail.protocol.seal import KeyRing

KEYS = [f"key{i}" for i in range(10)]


def pager_with(*secrets: bytes) -> Pager:
    return Pager(KeyRing([secret.ljust(32) for secret in secrets or (b"any",)]))


def walk(pager, keys, size):
    seen, cursor = [], None
    while True:
        part, cursor = pager.page("tools", keys, cursor, size)
        seen += keys[part]
        if cursor is None:
            return seen


@given(st.lists(st.text(), unique=True, max_size=30), st.integers(1, 12))
def test_every_key_comes_exactly_once(keys, size):
    assert walk(pager_with(b"secret"), keys, size) == keys


def test_a_short_list_has_no_cursor():
    assert pager_with().page("tools", KEYS, None, 10) == (slice(0, 10), None)
    assert pager_with().page("tools", [], None, 10) == (slice(0, 0), None)


def test_a_size_below_one_still_moves_on():
    part, cursor = pager_with().page("tools", KEYS, None, 0)
    assert part == slice(0, 1)
    assert cursor


def second(keys_now, size=3, pager=None):
    pager = pager or pager_with(b"secret")
    _, cursor = pager.page("tools", KEYS, None, size)
    part, _ = pager.page("tools", keys_now, cursor, size)
    return keys_now[part]


def test_an_entry_added_in_front_repeats_nothing():
    assert second(["new", *KEYS]) == KEYS[3:6]


def test_an_entry_removed_in_front_loses_nothing():
    assert second(KEYS[1:]) == KEYS[3:6]


def test_the_last_entry_sent_may_vanish():
    assert second([key for key in KEYS if key != "key2"]) == KEYS[3:6]


def test_the_list_starts_again_when_all_keys_of_the_cursor_are_gone():
    assert second(KEYS[3:]) == KEYS[3:6]


def test_a_list_that_shrank_to_nothing_ends():
    assert second([]) == []


def test_replicas_share_cursors_through_the_secret():
    _, cursor = pager_with(b"shared").page("tools", KEYS, None, 3)
    assert pager_with(b"shared").page("tools", KEYS, cursor, 3)[0] == slice(3, 6)
    with pytest.raises(ProtocolError):
        pager_with(b"other").page("tools", KEYS, cursor, 3)


def test_a_cursor_is_bound_to_its_kind():
    pager = pager_with()
    _, cursor = pager.page("tools", KEYS, None, 3)
    with pytest.raises(ProtocolError) as caught:
        pager.page("prompts", KEYS, cursor, 3)
    assert caught.value.code == INVALID_PARAMS


def test_every_changed_byte_is_noticed():
    pager = pager_with(b"secret")
    _, cursor = pager.page("tools", KEYS, None, 3)
    assert cursor
    sealed = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
    for at in range(len(sealed)):
        changed = bytearray(sealed)
        changed[at] ^= 1
        with pytest.raises(ProtocolError):
            pager.page("tools", KEYS, base64.urlsafe_b64encode(changed).decode(), 3)


@given(st.text(max_size=100))
def test_invalid_cursors_are_refused(junk):
    with pytest.raises(ProtocolError) as caught:
        pager_with(b"secret").page("tools", KEYS, junk, 3)
    assert caught.value.code == INVALID_PARAMS


def test_a_huge_cursor_is_refused():
    with pytest.raises(ProtocolError):
        pager_with().page("tools", KEYS, "A" * 1_000_000, 3)


def test_cursors_follow_the_keys_of_the_ring():
    ring = KeyRing([b"old".ljust(32)])
    pager = Pager(ring)
    _, cursor = pager.page("tools", KEYS, None, 3)
    ring.replace([b"new".ljust(32), *ring.secrets])
    assert pager.page("tools", KEYS, cursor, 3)[0] == slice(3, 6)
    ring.replace(ring.secrets[:1])
    with pytest.raises(ProtocolError):
        pager.page("tools", KEYS, cursor, 3)


def test_cursors_survive_the_rotation_of_keys():
    _, cursor = pager_with(b"old").page("tools", KEYS, None, 3)
    assert pager_with(b"new", b"old").page("tools", KEYS, cursor, 3)[0] == slice(3, 6)
    _, cursor = pager_with(b"new", b"old").page("tools", KEYS, None, 3)
    assert pager_with(b"new").page("tools", KEYS, cursor, 3)[0] == slice(3, 6)
