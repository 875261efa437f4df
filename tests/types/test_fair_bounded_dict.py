"""A bounded mapping in which the owner with the most entries makes room."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.types.fair_bounded_dict import FairBoundedDict


def test_an_owner_that_adds_without_end_evicts_its_own_entries_only() -> None:
    table: FairBoundedDict[str, str, int] = FairBoundedDict(10)
    for n in range(3):
        table.add("ann", f"ann {n}", n)
    evicted = [table.add("bob", f"bob {n}", n) for n in range(1000)]
    assert {entry.owner for entry in evicted if entry is not None} == {"bob"}
    assert all(f"ann {n}" in table for n in range(3))
    assert len(table) == 10
    assert [f"bob {n}" in table for n in (992, 993, 999)] == [False, True, True]


def test_entries_of_one_owner_are_evicted_oldest_first() -> None:
    table: FairBoundedDict[None, int, str] = FairBoundedDict(2)
    assert table.add(None, 1, "a") is table.add(None, 2, "b") is None
    evicted = table.add(None, 3, "c")
    assert evicted is not None and evicted.key == 1
    oldest = table.oldest()
    assert oldest is not None and oldest.value == "b"
    assert (table.pop(2), table.pop(2)) == ("b", None)
    assert len(table) == 1


def test_a_key_is_added_once() -> None:
    table: FairBoundedDict[str, int, int] = FairBoundedDict(2)
    table.add("ann", 1, 1)
    with pytest.raises(ValueError, match="in use"):
        table.add("bob", 1, 2)


def test_a_table_without_room_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        FairBoundedDict(0)


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.booleans()), max_size=200), st.integers(1, 12))
def test_the_owner_with_the_most_entries_always_makes_room(steps: list[tuple[str, bool]], room: int) -> None:
    table: FairBoundedDict[str, int, None] = FairBoundedDict(room)
    model: list[tuple[str, int]] = []
    for n, (owner, removes) in enumerate(steps):
        mine = [entry for entry in model if entry[0] == owner]
        if removes and mine:
            table.pop(mine[0][1])
            model.remove(mine[0])
            continue
        evicted = table.add(owner, n, None)
        model.append((owner, n))
        if len(model) > room:
            counts = {name: sum(entry[0] == name for entry in model) for name in "abcd"}
            assert evicted is not None and counts[evicted.owner] == max(counts.values())
            assert (evicted.owner, evicted.key) == next(entry for entry in model if entry[0] == evicted.owner)
            model.remove((evicted.owner, evicted.key))
        else:
            assert evicted is None
        assert len(table) == len(model) and all(key in table for _, key in model)
