"""Registries: the tools, resources or prompts of a server by key, in the order of adding, with a change callback."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from dovetail.protocol.errors import LocalError

Item = TypeVar("Item")

_MAX_SUGGESTION = 200
"""The longest key that is compared with others, because a peer chooses its length and the time grows with it."""


class Registry(Generic[Item]):
    """Items by key; every change calls `on_change`."""

    def __init__(self, noun: str, on_change: Callable[[], None]) -> None:
        self._noun = noun
        self._items: dict[str, Item] = {}
        self.get: Callable[[str], Item | None] = self._items.get
        """The item with a key, or None; the dict's own method, because it is on the path of every call."""
        self._on_change = on_change
        self.offered = False
        """True once an item was added: the capability of a list that became empty stays."""

    def __iter__(self) -> Iterator[Item]:
        # A copy: a handler in a thread may add one meanwhile.
        return iter(list(self._items.values()))

    def __contains__(self, key: object) -> bool:
        return key in self._items

    def __len__(self) -> int:
        return len(self._items)

    def items(self) -> list[tuple[str, Item]]:
        """Keys and items, in order, as they are now."""
        return list(self._items.items())

    def add(self, key: str, item: Item) -> None:
        """Add an item; LocalError if the key is in use."""
        if key in self._items:
            raise LocalError(f"There is a {self._noun} {key!r} already; remove it first, or give another name")
        self._items[key] = item
        try:
            self._on_change()
        except BaseException:
            # A server in which this one is mounted has another item of that key.
            del self._items[key]
            self._on_change()
            raise
        self.offered = True

    def remove(self, key: str) -> None:
        """Remove an item."""
        if key not in self._items:
            raise LocalError(f"There is no {self._noun} {key!r} to remove{self.suggestion(key)}")
        del self._items[key]
        self._on_change()

    def suggestion(self, key: str) -> str:
        """The text that suggests the most similar key, or an empty string."""
        if len(key) > _MAX_SUGGESTION:
            return ""
        import difflib

        close = difflib.get_close_matches(key, list(self._items), n=1)
        return f" (did you mean {close[0]!r}?)" if close else ""
