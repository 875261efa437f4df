"""A sorted set of names with fast prefix queries."""

from __future__ import annotations

from bisect import bisect_left, insort

BLOCK = 512
"""Names in a new block; an insertion moves at most twice as many, however large the set is."""


def prefix_end(prefix: str) -> str | None:
    """The smallest text after all texts with this prefix, in code points; None if there is no such text."""
    while prefix:
        point = ord(prefix[-1]) + 1
        if point <= 0x10FFFF:
            # Surrogates are not characters, and cannot be encoded as UTF-8.
            return prefix[:-1] + chr(0xE000 if 0xD800 <= point <= 0xDFFF else point)
        prefix = prefix[:-1]
    return None


class SortedNames:
    """A sorted set in blocks: adding, removing and counting cost about the logarithm of its size."""

    __slots__ = ("_blocks", "_last_of_block")

    def __init__(self) -> None:
        self._blocks: list[list[str]] = []
        self._last_of_block: list[str] = []

    def add(self, name: str) -> None:
        """Add a name that is not in the set."""
        if not self._blocks:
            self._blocks.append([name])
            self._last_of_block.append(name)
            return
        at = min(bisect_left(self._last_of_block, name), len(self._blocks) - 1)
        block = self._blocks[at]
        insort(block, name)
        self._last_of_block[at] = block[-1]
        if len(block) > 2 * BLOCK:
            self._blocks[at : at + 1] = block[:BLOCK], block[BLOCK:]
            self._last_of_block[at : at + 1] = block[BLOCK - 1], block[-1]

    def remove(self, name: str) -> None:
        """Remove a name that is in the set."""
        at = bisect_left(self._last_of_block, name)
        block = self._blocks[at]
        del block[bisect_left(block, name)]
        if block:
            self._last_of_block[at] = block[-1]
        else:
            del self._blocks[at]
            del self._last_of_block[at]

    def count(self, prefix: str) -> int:
        """The number of names with a prefix."""
        (low, start), (high, stop) = self._range(prefix)
        return sum(map(len, self._blocks[low:high])) - start + stop

    def with_prefix(self, prefix: str, limit: int | None = None) -> list[str]:
        """The names with a prefix, at most `limit`."""
        (low, start), (high, stop) = self._range(prefix)
        names: list[str] = []
        for at in range(low, min(high + 1, len(self._blocks))):
            block = self._blocks[at]
            names += block[start if at == low else 0 : stop if at == high else len(block)]
            if limit is not None and len(names) >= limit:
                return names[: max(limit, 0)]
        return names

    def _range(self, prefix: str) -> tuple[tuple[int, int], tuple[int, int]]:
        end = prefix_end(prefix)
        return self._position(prefix), (len(self._blocks), 0) if end is None else self._position(end)

    def _position(self, name: str) -> tuple[int, int]:
        at = bisect_left(self._last_of_block, name)
        return at, bisect_left(self._blocks[at], name) if at < len(self._blocks) else 0
