"""Reconnection policy: how long a client waits before it opens a stream again, and when it gives up.

The client decides the pace, not the server: a server that ends each stream at once, with `retry: 0` or with a message
in each, is not sent one request after the other.
"""

from __future__ import annotations

import random

AT_ONCE_SECONDS = 0.1
"""The longest pause after a stream that ended properly: a replica that stops hands its streams over in this way."""

FIRST_DELAY = 1.0
MAX_DELAY = 30.0
"""Bounds of the pause after a broken stream or a failed attempt; the upper bound doubles from the first to the last."""

MIN_DELAY = 0.25
MAX_EMPTY_DELAY = 5.0
"""Bounds of the pause after connections in a row that brought nothing."""

LASTING_SECONDS = 5.0
"""A stream that was open for so long has served its purpose, even if it brought no message."""

GIVE_UP_SECONDS = 60.0
"""Seconds without a successful attempt after which a stream is given up."""

RECONNECT_BURST = 10
RECONNECTS_A_MINUTE = 30
"""Reconnections of one stream at once, and then in each minute, whatever comes over it."""


TEMPORARY_STATUSES = frozenset({429, 500, 502, 503, 504})
"""HTTP statuses of a server that is restarting or overloaded, or of a proxy that cannot reach it."""


class Reconnection:
    """Pauses between the connections of one stream: exponential backoff with full jitter, within a rate.

    All times are those of one monotonic clock, in seconds.
    """

    def __init__(self) -> None:
        self._in_vain = 0
        """Connections and attempts in a row that brought nothing."""
        self._failing_since: float | None = None
        self._due = 0.0
        """The time at which the reconnections so far are within the rate, without a burst."""

    def connected(self) -> None:
        """An attempt succeeded."""
        self._failing_since = None

    def after_end(self, now: float, *, useful: bool, broken: bool, retry: float | None = None) -> float:
        """Seconds to wait after a stream has ended.

        `useful` is a stream that lasted, or delivered something new; `broken` one that did not end properly; `retry`
        the least number of seconds that the server asks for.
        """
        if useful:
            self._in_vain = 0
        if not self._in_vain:
            pause = random.uniform(0, FIRST_DELAY if broken else AT_ONCE_SECONDS)
        else:
            pause = _jitter(MIN_DELAY, self._in_vain, MAX_EMPTY_DELAY)
        self._in_vain += 1
        return self._paced(now, pause, retry)

    def after_failure(self, now: float, *, retry: float | None = None) -> float | None:
        """Seconds to wait after an attempt failed; None to give up.

        `retry` is the least number of seconds that the server or a proxy asks for (`Retry-After`).
        """
        if self._failing_since is None:
            self._failing_since = now
        pause = self._paced(now, _jitter(FIRST_DELAY, self._in_vain, MAX_DELAY), retry)
        self._in_vain += 1
        return None if now + pause > self._failing_since + GIVE_UP_SECONDS else pause

    def _paced(self, now: float, pause: float, retry: float | None) -> float:
        interval = 60 / RECONNECTS_A_MINUTE
        self._due = max(self._due, now) + interval
        return max(pause, retry or 0.0, self._due - now - RECONNECT_BURST * interval)


def _jitter(first: float, exponent: int, most: float) -> float:
    return random.uniform(min(MIN_DELAY, most), max(MIN_DELAY, min(first * 2 ** min(exponent, 10), most)))
