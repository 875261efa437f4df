"""Names in order, so that those with a common beginning stand next to each other."""

from __future__ import annotations

from bisect import bisect_left, insort

BLOCK = 512
"""Names in one block at first; to insert moves at most twice as many, however many there are in all."""


def beyond(prefix: str) -> str | None:
    """The least text that comes after every text with this beginning, in code points; None if there is no end."""
    while prefix:
        point = ord(prefix[-1]) + 1
        if point <= 0x10FFFF:
            # Surrogates are no characters, and have no UTF-8.
            return prefix[:-1] + chr(0xE000 if 0xD800 <= point <= 0xDFFF else point)
        prefix = prefix[:-1]
    return None


class OrderedNames:
    """A sorted set of names in blocks; to add, remove and count costs about the logarithm of their number."""

    __slots__ = ("_blocks", "_lasts")

    def __init__(self) -> None:
        self._blocks: list[list[str]] = []
        self._lasts: list[str] = []

    def add(self, name: str) -> None:
        """Put a name in that is not there."""
        if not self._blocks:
            self._blocks.append([name])
            self._lasts.append(name)
            return
        at = min(bisect_left(self._lasts, name), len(self._blocks) - 1)
        block = self._blocks[at]
        insort(block, name)
        self._lasts[at] = block[-1]
        if len(block) > 2 * BLOCK:
            self._blocks[at : at + 1] = block[:BLOCK], block[BLOCK:]
            self._lasts[at : at + 1] = block[BLOCK - 1], block[-1]

    def remove(self, name: str) -> None:
        """Take a name out that is there."""
        at = bisect_left(self._lasts, name)
        block = self._blocks[at]
        del block[bisect_left(block, name)]
        if block:
            self._lasts[at] = block[-1]
        else:
            del self._blocks[at]
            del self._lasts[at]

    def count(self, prefix: str) -> int:
        """How many begin with the prefix."""
        (low, start), (high, stop) = self._range(prefix)
        return sum(map(len, self._blocks[low:high])) - start + stop

    def beginning(self, prefix: str, limit: int | None = None) -> list[str]:
        """Those that begin with the prefix, at most so many."""
        (low, start), (high, stop) = self._range(prefix)
        found: list[str] = []
        for at in range(low, min(high + 1, len(self._blocks))):
            block = self._blocks[at]
            found += block[start if at == low else 0 : stop if at == high else len(block)]
            if limit is not None and len(found) >= limit:
                return found[: max(limit, 0)]
        return found

    def _range(self, prefix: str) -> tuple[tuple[int, int], tuple[int, int]]:
        end = beyond(prefix)
        return self._place(prefix), (len(self._blocks), 0) if end is None else self._place(end)

    def _place(self, name: str) -> tuple[int, int]:
        at = bisect_left(self._lasts, name)
        return at, bisect_left(self._blocks[at], name) if at < len(self._blocks) else 0
