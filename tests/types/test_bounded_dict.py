"""`BoundedDict`: size, order of eviction, refreshing."""

from collections import OrderedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.types.bounded_dict import BoundedDict


def filled(max_items: int, *keys: str) -> BoundedDict[str, int]:
    entries = BoundedDict[str, int](max_items)
    for number, key in enumerate(keys):
        entries[key] = number
    return entries


def test_a_new_entry_evicts_the_oldest_of_a_full_dict():
    assert list(filled(2, "a", "b", "c")) == ["b", "c"]


def test_nothing_is_evicted_before_the_dict_is_full():
    assert list(filled(3, "a", "b", "c")) == ["a", "b", "c"]


def test_replacing_a_value_evicts_nothing_and_keeps_the_age_of_the_entry():
    entries = filled(2, "a", "b")
    entries["a"] = 7
    assert entries == {"a": 7, "b": 1}
    entries["c"] = 8
    assert entries == {"b": 1, "c": 8}


def test_a_refreshed_entry_is_evicted_last():
    entries = filled(2, "a", "b")
    assert entries.get_and_refresh("a") == 0
    entries["c"] = 2
    assert entries == {"a": 0, "c": 2}


def test_refreshing_a_missing_key_returns_none_and_adds_nothing():
    entries = filled(2, "a")
    assert entries.get_and_refresh("b") is None
    assert list(entries) == ["a"]


def test_an_entry_whose_value_is_none_can_be_refreshed():
    entries = BoundedDict[str, None](2)
    entries["a"] = entries["b"] = None
    assert entries.get_and_refresh("a") is None
    assert list(entries) == ["b", "a"]


def test_setting_with_refresh_makes_a_replaced_entry_the_newest():
    entries = filled(2, "a", "b")
    entries.set_and_refresh("a", 5)
    entries.set_and_refresh("c", 6)
    assert list(entries.items()) == [("a", 5), ("c", 6)]


def test_evicted_entries_are_passed_to_the_callback_and_removed_ones_are_not():
    evicted: list[tuple[str, int]] = []
    entries = BoundedDict[str, int](1, lambda key, value: evicted.append((key, value)))
    entries["a"] = 1
    entries["b"] = 2
    assert evicted == [("a", 1)]
    entries.pop("b")
    entries["c"] = 3
    del entries["c"]
    entries["d"] = 4
    entries.clear()
    assert evicted == [("a", 1)]


def test_the_callback_sees_the_dict_with_the_new_entry_in_place():
    contents: list[list[str]] = []
    entries = BoundedDict[str, int](1, lambda _key, _value: contents.append(list(entries)))
    entries["a"] = 1
    entries["b"] = 2
    assert contents == [["b"]]


def test_update_and_setdefault_respect_the_bound():
    entries = filled(2, "a", "b")
    entries.update({"c": 3, "d": 4})
    assert list(entries) == ["c", "d"]
    assert entries.setdefault("e", 5) == 5
    assert list(entries) == ["d", "e"]


@pytest.mark.parametrize("max_items", [0, -1])
def test_a_bound_below_one_is_refused(max_items: int):
    with pytest.raises(ValueError, match=f"at least 1, not {max_items}"):
        BoundedDict[str, int](max_items)


@given(st.integers(1, 4), st.lists(st.tuples(st.booleans(), st.integers(0, 6))))
def test_any_sequence_of_sets_and_refreshes_matches_a_plain_model(bound: int, steps: list[tuple[bool, int]]):
    entries, model = BoundedDict[int, int](bound), OrderedDict[int, int]()
    for number, (is_set, key) in enumerate(steps):
        if is_set:
            entries[key] = model[key] = number
            while len(model) > bound:
                model.popitem(last=False)
        else:
            assert entries.get_and_refresh(key) == model.get(key)
            if key in model:
                model.move_to_end(key)
        assert list(entries.items()) == list(model.items())
        assert len(entries) <= bound
