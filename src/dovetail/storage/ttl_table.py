"""In-memory table whose items expire."""

from __future__ import annotations

from heapq import heapify, heappop, heappush, heapreplace
from typing import Generic, TypeVar

from .sorted_names import SortedNames

NEVER = float("inf")
_REMOVED = float("-inf")
_MIN_REMOVED = 64

T = TypeVar("T")


class _Item(Generic[T]):
    """One item; `due` is its time in the heap, which is never later than its expiry."""

    __slots__ = ("due", "expires", "name", "value")

    def __init__(self, name: str, value: T, expires: float) -> None:
        self.name = name
        self.value: T | None = value
        self.expires = expires
        self.due = expires

    def __lt__(self, other: _Item[T]) -> bool:
        return self.due < other.due


class TtlTable(Generic[T]):
    """Values under names, each with an expiry time.

    An item is in the heap once. Renewing does not move it: when its old time is reached, it is put back with the new
    one. So renewing costs nothing, which matters because every request renews its session.
    """

    __slots__ = ("_heap", "_items", "_names", "_removed")

    def __init__(self) -> None:
        self._items: dict[str, _Item[T]] = {}
        self._names = SortedNames()
        self._heap: list[_Item[T]] = []
        self._removed = 0

    def __len__(self) -> int:
        return len(self._items)

    def get(self, name: str, now: float) -> T | None:
        """The value, or None if there is none or if it has expired."""
        item = self._items.get(name)
        return None if item is None or item.expires <= now else item.value

    def set(self, name: str, value: T, expires: float) -> None:
        """Set a value, replacing an existing one."""
        item = self._items.get(name)
        if item is None:
            self._names.add(name)
        elif self._renewable(item, expires):
            item.value, item.expires = value, expires
            return
        else:
            self._mark_removed(item)
        item = self._items[name] = _Item(name, value, expires)
        if expires != NEVER:
            heappush(self._heap, item)

    def renew(self, name: str, expires: float, now: float) -> bool:
        """Set another expiry time; False if there is no such item or if it has expired."""
        item = self._items.get(name)
        if item is None or item.expires <= now or item.value is None:
            return False
        if self._renewable(item, expires):
            item.expires = expires
        else:
            self.set(name, item.value, expires)
        return True

    def pop(self, name: str, now: float) -> T | None:
        """Remove an item, and return its value unless it had expired."""
        item = self._items.pop(name, None)
        if item is None:
            return None
        self._names.remove(name)
        value = None if item.expires <= now else item.value
        self._mark_removed(item)
        return value

    def count(self, prefix: str, now: float) -> int:
        """The number of names with a prefix."""
        self.sweep(now, len(self._heap))
        return self._names.count(prefix)

    def with_prefix(self, prefix: str, now: float, limit: int | None = None) -> list[str]:
        """The names with a prefix, at most `limit`."""
        self.sweep(now, len(self._heap))
        return self._names.with_prefix(prefix, limit)

    def sweep(self, now: float, limit: int) -> None:
        """Free expired items; at most `limit` are examined."""
        heap = self._heap
        if not heap or heap[0].due > now:
            return
        while heap and heap[0].due <= now and limit > 0:
            limit -= 1
            item = heap[0]
            if item.expires == _REMOVED:
                self._removed -= 1
            elif item.expires <= now:
                del self._items[item.name]
                self._names.remove(item.name)
            else:
                item.due = item.expires
                if item.due != NEVER:
                    heapreplace(heap, item)
                    continue
            heappop(heap)
        if not self._items:
            # A dictionary that was emptied keeps its memory.
            self._items = {}

    @staticmethod
    def _renewable(item: _Item[T], expires: float) -> bool:
        """True if its place in the heap is early enough for the new expiry; without expiry it is not in the heap."""
        return expires >= item.due

    def _mark_removed(self, item: _Item[T]) -> None:
        """Mark a removed item; it stays in the heap until its time, or until half of the heap is such items."""
        item.value, item.expires = None, _REMOVED
        if item.due == NEVER:
            return
        self._removed += 1
        if self._removed > _MIN_REMOVED and 2 * self._removed > len(self._heap):
            self._heap = [item for item in self._heap if item.expires != _REMOVED]
            heapify(self._heap)
            self._removed = 0
