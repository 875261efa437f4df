"""Things are kept for their time, and not more of them than there is room for."""

from dovetail.testing.auth_server.expiring_map import ExpiringMap


def test_entries_expire() -> None:
    shelf: ExpiringMap[int] = ExpiringMap(10)
    shelf.put("a", 1, 0)
    shelf.change("a", 2)
    assert shelf.get("a", 9.9) == 2
    assert shelf.get("a", 10) is None
    shelf.put("b", 3, 20)
    assert len(shelf) == 1
    assert shelf.pop("b", 20) == 3
    assert shelf.pop("b", 20) is None


def test_the_oldest_entry_is_dropped_beyond_the_bound() -> None:
    shelf: ExpiringMap[int] = ExpiringMap(10, 2)
    for number, name in enumerate("abac"):
        shelf.put(name, number, 0)
    assert dict(shelf) == {"a": 2, "c": 3}
    shelf.clear()
    assert len(shelf) == 0
