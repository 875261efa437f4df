"""`FairBoundedDict`: a mapping with a maximum size whose entries have owners; the owner with the most makes room."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, NamedTuple, TypeVar

O = TypeVar("O", bound=Hashable)  # noqa: E741 - an owner, beside K and V
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class OwnedEntry(NamedTuple, Generic[O, K, V]):
    """An entry with its owner."""

    owner: O
    key: K
    value: V


class FairBoundedDict(Generic[O, K, V]):
    """At most `max_items` entries of all owners: one more evicts the oldest entry of the owner that has the most.

    So an owner that adds entries without end evicts its own, and never those of an owner that has fewer. Every
    operation takes constant time.
    """

    __slots__ = ("_by_count", "_entries", "_keys", "_most", "max_items")

    def __init__(self, max_items: int) -> None:
        if max_items < 1:
            raise ValueError(f"max_items must be at least 1, not {max_items}")
        self.max_items = max_items
        self._entries: OrderedDict[K, OwnedEntry[O, K, V]] = OrderedDict()
        self._keys: dict[O, OrderedDict[K, None]] = {}
        self._by_count: dict[int, dict[O, None]] = {}
        """The owners by the number of their entries."""
        self._most = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: K) -> bool:
        return key in self._entries

    def add(self, owner: O, key: K, value: V) -> OwnedEntry[O, K, V] | None:
        """Add an entry under a new key; return the one that was evicted for it, if any."""
        if key in self._entries:
            raise ValueError(f"{key!r} is in use")
        self._entries[key] = OwnedEntry(owner, key, value)
        keys = self._keys.setdefault(owner, OrderedDict())
        self._move(owner, len(keys), len(keys) + 1)
        keys[key] = None
        if len(self._entries) <= self.max_items:
            return None
        largest = next(iter(self._by_count[self._most]))
        return self._remove(next(iter(self._keys[largest])))

    def get(self, key: K) -> V | None:
        """The value of an entry, or None."""
        entry = self._entries.get(key)
        return None if entry is None else entry.value

    def pop(self, key: K) -> V | None:
        """Remove an entry and return its value; None if there is none."""
        return self._remove(key).value if key in self._entries else None

    def entries(self) -> list[OwnedEntry[O, K, V]]:
        """All entries, the oldest first."""
        return list(self._entries.values())

    def oldest(self) -> OwnedEntry[O, K, V] | None:
        """The entry that was added first."""
        return next(iter(self._entries.values()), None)

    def _remove(self, key: K) -> OwnedEntry[O, K, V]:
        entry = self._entries.pop(key)
        keys = self._keys[entry.owner]
        del keys[key]
        self._move(entry.owner, len(keys) + 1, len(keys))
        if not keys:
            del self._keys[entry.owner]
        return entry

    def _move(self, owner: O, before: int, after: int) -> None:
        """Count one entry more or less of an owner."""
        if after:
            self._by_count.setdefault(after, {})[owner] = None
        if before:
            owners = self._by_count[before]
            del owners[owner]
            if not owners:
                del self._by_count[before]
        if after > self._most:
            self._most = after
        elif self._most not in self._by_count:
            self._most -= 1
