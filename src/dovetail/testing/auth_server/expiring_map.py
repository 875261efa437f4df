"""A bounded map whose entries expire."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class ExpiringMap(Generic[T]):
    """A map with one time to live for all entries; beyond `most` entries the oldest is dropped."""

    def __init__(self, seconds: float, most: int = 10_000) -> None:
        self._seconds = seconds
        self._most = most
        self._entries: OrderedDict[str, tuple[float, T]] = OrderedDict()

    def put(self, name: str, thing: T, now: float) -> None:
        """Add an entry, or replace it with a new time to live."""
        self._entries.pop(name, None)
        while self._entries and (len(self._entries) >= self._most or next(iter(self._entries.values()))[0] <= now):
            self._entries.popitem(last=False)
        self._entries[name] = (now + self._seconds, thing)

    def get(self, name: str, now: float) -> T | None:
        """The value of an entry that has not expired."""
        until, thing = self._entries.get(name, (now, None))
        return thing if until > now else None

    def change(self, name: str, thing: T) -> None:
        """Replace the value of an entry, keeping its expiry."""
        self._entries[name] = (self._entries[name][0], thing)

    def pop(self, name: str, now: float) -> T | None:
        """Remove an entry and return its value."""
        value = self.get(name, now)
        self._entries.pop(name, None)
        return value

    def clear(self) -> None:
        """Remove all entries."""
        self._entries.clear()

    def __iter__(self) -> Iterator[tuple[str, T]]:
        return ((name, thing) for name, (_, thing) in list(self._entries.items()))

    def __len__(self) -> int:
        return len(self._entries)
