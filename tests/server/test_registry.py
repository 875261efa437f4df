"""What a server offers of one kind: in order, each once, with everyone told of changes."""

import threading

import pytest

from dovetail.protocol.errors import LocalError
from dovetail.server.registry import Registry


def registry() -> tuple[Registry[int], list[str]]:
    told: list[str] = []
    return Registry("tool", lambda: told.append("changed")), told


def test_items_keep_the_order_of_adding():
    items, _ = registry()
    for n, key in enumerate(["c", "a", "b"]):
        items.add(key, n)
    assert items.items() == [("c", 0), ("a", 1), ("b", 2)]
    assert list(items) == [0, 1, 2]
    assert len(items) == 3
    assert items.get("a") == 1
    assert items.get("z") is None


def test_every_change_is_reported():
    items, told = registry()
    items.add("a", 1)
    items.add("b", 2)
    items.remove("a")
    assert told == ["changed"] * 3


def test_a_key_can_be_taken_only_once():
    items, told = registry()
    items.add("a", 1)
    with pytest.raises(LocalError, match="There is a tool 'a' already; remove it first, or give another name"):
        items.add("a", 2)
    assert items.get("a") == 1
    assert told == ["changed"]


def test_a_key_that_was_removed_can_be_taken_again():
    items, _ = registry()
    items.add("a", 1)
    items.remove("a")
    items.add("a", 2)
    assert items.get("a") == 2


def test_removing_an_unknown_key_is_an_error_with_a_suggestion():
    items, told = registry()
    items.add("forecast", 1)
    with pytest.raises(LocalError, match=r"no tool 'forcast' to remove \(did you mean 'forecast'\?\)"):
        items.remove("forcast")
    with pytest.raises(LocalError, match=r"no tool 'xyz' to remove$"):
        items.remove("xyz")
    assert told == ["changed"]


def test_a_list_that_became_empty_is_still_offered():
    items, _ = registry()
    assert not items.offered
    items.add("a", 1)
    items.remove("a")
    assert items.offered
    assert len(items) == 0


def test_a_very_long_key_gets_no_suggestion():
    items, _ = registry()
    items.add("a" * 300, 1)
    assert items.suggestion("a" * 299) == ""


def test_iteration_sees_a_snapshot():
    items, _ = registry()
    for n in range(3):
        items.add(str(n), n)
    seen = iter(items)
    items.add("late", 3)
    items.remove("1")
    assert list(seen) == [0, 1, 2]


def test_a_thread_may_add_items_during_iteration():
    items, _ = registry()

    def add() -> None:
        for n in range(3000):
            items.add(str(n), n)

    thread = threading.Thread(target=add)
    thread.start()
    while thread.is_alive():
        seen = list(items)
        assert seen == list(range(len(seen)))
    thread.join()
    assert len(items) == 3000
