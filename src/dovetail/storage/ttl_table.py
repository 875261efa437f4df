"""A table in memory whose items end by themselves."""

from __future__ import annotations

from heapq import heapify, heappop, heappush, heapreplace
from typing import Generic, TypeVar

from .sorted_names import OrderedNames

NEVER = float("inf")
_ENDED = float("-inf")
_FEW = 64

T = TypeVar("T")


class _Item(Generic[T]):
    """One item; `due` is when it is looked at next, which is never later than when it ends."""

    __slots__ = ("due", "expires", "name", "value")

    def __init__(self, name: str, value: T, expires: float) -> None:
        self.name = name
        self.value: T | None = value
        self.expires = expires
        self.due = expires

    def __lt__(self, other: _Item[T]) -> bool:
        return self.due < other.due


class Expiring(Generic[T]):
    """Values under names, each until its time.

    An item stands in the heap once. To give it more time does not move it: when it comes up it goes back
    with its new time. So renewing costs nothing, which matters because every request renews its session.
    """

    __slots__ = ("_ended", "_heap", "_items", "_names")

    def __init__(self) -> None:
        self._items: dict[str, _Item[T]] = {}
        self._names = OrderedNames()
        self._heap: list[_Item[T]] = []
        self._ended = 0

    def __len__(self) -> int:
        return len(self._items)

    def get(self, name: str, now: float) -> T | None:
        """The value, unless its time is over."""
        item = self._items.get(name)
        return None if item is None or item.expires <= now else item.value

    def set(self, name: str, value: T, expires: float) -> None:
        """Put a value in, whatever was there."""
        item = self._items.get(name)
        if item is None:
            self._names.add(name)
        elif self._renewable(item, expires):
            item.value, item.expires = value, expires
            return
        else:
            self._end(item)
        item = self._items[name] = _Item(name, value, expires)
        if expires != NEVER:
            heappush(self._heap, item)

    def renew(self, name: str, expires: float, now: float) -> bool:
        """Give an item another end, unless its time is over."""
        item = self._items.get(name)
        if item is None or item.expires <= now or item.value is None:
            return False
        if self._renewable(item, expires):
            item.expires = expires
        else:
            self.set(name, item.value, expires)
        return True

    def pop(self, name: str, now: float) -> T | None:
        """Take an item out, and give its value unless its time was over."""
        item = self._items.pop(name, None)
        if item is None:
            return None
        self._names.remove(name)
        value = None if item.expires <= now else item.value
        self._end(item)
        return value

    def count(self, prefix: str, now: float) -> int:
        """How many names begin with the prefix."""
        self.sweep(now, len(self._heap))
        return self._names.count(prefix)

    def beginning(self, prefix: str, now: float, limit: int | None = None) -> list[str]:
        """The names that begin with the prefix, at most so many."""
        self.sweep(now, len(self._heap))
        return self._names.beginning(prefix, limit)

    def sweep(self, now: float, limit: int) -> None:
        """Free what is past its time; at most so many are looked at."""
        heap = self._heap
        if not heap or heap[0].due > now:
            return
        while heap and heap[0].due <= now and limit > 0:
            limit -= 1
            item = heap[0]
            if item.expires == _ENDED:
                self._ended -= 1
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
            # A dictionary that is emptied keeps the room it had.
            self._items = {}

    @staticmethod
    def _renewable(item: _Item[T], expires: float) -> bool:
        """Whether the item comes up early enough as it stands; one that is in no heap never comes up."""
        return expires >= item.due

    def _end(self, item: _Item[T]) -> None:
        """Leave an item that was taken out in the heap until it comes up, or until half of the heap is such."""
        item.value, item.expires = None, _ENDED
        if item.due == NEVER:
            return
        self._ended += 1
        if self._ended > _FEW and 2 * self._ended > len(self._heap):
            self._heap = [item for item in self._heap if item.expires != _ENDED]
            heapify(self._heap)
            self._ended = 0
