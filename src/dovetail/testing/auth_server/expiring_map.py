"""Things that are kept for a while under names that nobody can guess."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class Shelf(Generic[T]):
    """All are kept equally long; beyond a bound the oldest goes."""

    def __init__(self, seconds: float, most: int = 10_000) -> None:
        self._seconds = seconds
        self._most = most
        self._kept: OrderedDict[str, tuple[float, T]] = OrderedDict()

    def put(self, name: str, thing: T, now: float) -> None:
        """Keep it, from now on."""
        self._kept.pop(name, None)
        while self._kept and (len(self._kept) >= self._most or next(iter(self._kept.values()))[0] <= now):
            self._kept.popitem(last=False)
        self._kept[name] = (now + self._seconds, thing)

    def get(self, name: str, now: float) -> T | None:
        """What is kept under a name."""
        until, thing = self._kept.get(name, (now, None))
        return thing if until > now else None

    def change(self, name: str, thing: T) -> None:
        """Put something in place of what is there, for as long as that was to be kept."""
        self._kept[name] = (self._kept[name][0], thing)

    def take(self, name: str, now: float) -> T | None:
        """The same, and keep it no longer."""
        found = self.get(name, now)
        self._kept.pop(name, None)
        return found

    def clear(self) -> None:
        """Keep nothing."""
        self._kept.clear()

    def __iter__(self) -> Iterator[tuple[str, T]]:
        return ((name, thing) for name, (_, thing) in list(self._kept.items()))

    def __len__(self) -> int:
        return len(self._kept)
