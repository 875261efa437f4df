"""How much of a stream is remembered for a reader that comes back."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

MAX_EVENTS = 5000
MAX_BYTES = 16_000_000
"""What has been written is kept within these bounds, in case it was lost on the way; the rest is kept in any case.

Between the two ends of a connection there can be as much as their buffers hold, which is some 10 MB on Linux.
"""


class Retention:
    """Counts the entries of one log, and says how many of them to keep."""

    __slots__ = ("_before", "_bytes", "_sizes")

    def __init__(self, before: int = 0) -> None:
        """Begin to count; what was there before is kept, since nobody knows who has read it."""
        self._before = before
        self._sizes: deque[int] = deque()
        self._bytes = 0

    def keep(self, added: Iterable[int], unread: int) -> int:
        """How many entries to keep when some of these sizes are added, of which the last so many are unread."""
        for size in added:
            self._sizes.append(size)
            self._bytes += size
        while len(self._sizes) > max(unread, 1) and (self._bytes > MAX_BYTES or len(self._sizes) > MAX_EVENTS):
            self._bytes -= self._sizes.popleft()
        return self._before + len(self._sizes)
