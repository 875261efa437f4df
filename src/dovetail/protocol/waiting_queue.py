"""Queue of requests above the bound on requests in flight: they wait for their turn, within a budget of bytes.

Nothing but requests waits. Cancellations and responses are handled as they arrive, so that a handler which waits for an
answer of the peer gets it, however many requests were sent before the answer. For the same reason reading is never
paused because of this queue: a request above the budget is refused instead.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, NamedTuple, TypeVar

from dovetail.wire.jsonrpc import Id

MAX_WAITING_BYTES = 16 * 1024 * 1024
"""Bytes of the requests that wait on one connection; above it they are refused."""

WAITING_OVERHEAD = 512
"""Bytes that a waiting request is counted with besides its text."""

T = TypeVar("T")


class WaitingItem(NamedTuple, Generic[T]):
    """A waiting request, and the bytes that it is counted with."""

    item: T
    size: int


# A subclass: asking whether anything waits is part of every request, and costs no Python call this way.
class WaitingQueue(OrderedDict[Id, WaitingItem[T]], Generic[T]):
    """Requests by id, in the order of their arrival; to be changed by `add`, `take` and `remove` only."""

    __slots__ = ("_size", "max_bytes")

    def __init__(self, max_bytes: int = MAX_WAITING_BYTES) -> None:
        super().__init__()
        self.max_bytes = max_bytes
        self._size = 0

    def add(self, id: Id, item: T, length: int) -> bool:
        """Add a request of so many bytes; False, without any effect, if it is above the budget.

        A single request always fits, however long it is: the transport bounds the length of a message.
        """
        size = length + WAITING_OVERHEAD
        if self and self._size + size > self.max_bytes:
            return False
        self[id] = WaitingItem(item, size)
        self._size += size
        return True

    def take(self) -> tuple[Id, T]:
        """Remove the request that has waited longest; KeyError if there is none."""
        id, entry = self.popitem(last=False)
        self._size -= entry.size
        return id, entry.item

    def remove(self, id: Id) -> T:
        """Remove a request that was cancelled; KeyError if it does not wait."""
        entry = self.pop(id)
        self._size -= entry.size
        return entry.item
