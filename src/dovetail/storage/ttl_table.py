"""In-memory table whose items expire."""

from __future__ import annotations

from heapq import heapify, heappop, heappush, heapreplace, nsmallest
from typing import Generic, TypeVar

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

    __slots__ = ("_heap", "_items", "_removed")

    def __init__(self) -> None:
        self._items: dict[str, _Item[T]] = {}
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
        if item is not None:
            if self._renewable(item, expires):
                item.value, item.expires = value, expires
                return
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
        value = None if item.expires <= now else item.value
        self._mark_removed(item)
        return value

    def first(self, now: float) -> tuple[str, float] | None:
        """The name of the item that expires first, and its time; None if no item expires."""
        self.sweep(now)
        heap = self._heap
        while heap and heap[0].due != heap[0].expires:
            self._update_first()
        return (heap[0].name, heap[0].expires) if heap else None

    def names(self, now: float, limit: int) -> list[str]:
        """The names of up to `limit` items, those that expire first."""
        live = ((item.expires, item.name) for item in self._items.values() if item.expires > now)
        return [name for _, name in nsmallest(limit, live)]

    def sweep(self, now: float, limit: int | None = None) -> None:
        """Free expired items; at most `limit` are examined."""
        heap = self._heap
        if not heap or heap[0].due > now:
            return
        left = len(heap) if limit is None else limit
        while heap and heap[0].due <= now and left > 0:
            left -= 1
            item = heap[0]
            if item.expires != _REMOVED and item.expires <= now:
                del self._items[item.name]
                heappop(heap)
            else:
                self._update_first()
        if not self._items:
            # A dictionary that was emptied keeps its memory.
            self._items = {}

    def _update_first(self) -> None:
        """Move the first item of the heap to its present place, or remove it from there."""
        item = self._heap[0]
        if item.expires == _REMOVED:
            self._removed -= 1
            heappop(self._heap)
        elif item.expires == NEVER:
            item.due = NEVER
            heappop(self._heap)
        else:
            item.due = item.expires
            heapreplace(self._heap, item)

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
