"""A deque of bounded bytes."""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

_OVERHEAD = 200
"""Bytes that an entry costs besides its text, so that empty lines are bounded too."""

T = TypeVar("T")


class ByteBoundedDeque(Generic[T]):
    """A deque of bounded bytes: the oldest entries are dropped first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._entries: deque[tuple[T, int]] = deque()
        self._bytes = 0

    def add(self, entry: T, size: int) -> None:
        """Add one entry that takes so many bytes."""
        cost = size + _OVERHEAD
        self._entries.append((entry, cost))
        self._bytes += cost
        while self._bytes > self._most and len(self._entries) > 1:
            self._bytes -= self._entries.popleft()[1]

    def all(self) -> list[T]:
        """All entries, oldest first."""
        return [entry for entry, _ in self._entries]
