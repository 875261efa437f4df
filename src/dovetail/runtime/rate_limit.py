"""How often something may happen, as values; the time is an argument."""

from __future__ import annotations

from collections.abc import Hashable

from dovetail.protocol.errors import LocalError, ProtocolError
from dovetail.types.bounded_dict import BoundedDict

TOO_MANY_REQUESTS = 429
"""The code for a request over a limit; MCP has none, and asks for one outside JSON-RPC's own range."""


class Bucket:
    """So many at once, and so many a second after that."""

    __slots__ = ("_burst", "_left", "_rate", "_since")

    def __init__(self, rate: float, burst: float) -> None:
        if not (rate > 0 and burst >= 1):
            raise LocalError(f"A rate limit needs a rate above 0 and a burst of at least 1, not {rate:g} and {burst:g}")
        self._rate = rate
        self._burst = burst
        self._left = burst
        self._since: float | None = None

    def take(self, now: float) -> float:
        """Take one if there is one left, and return 0; otherwise the seconds until there will be."""
        if self._since is not None and now > self._since:
            self._left = min(self._burst, self._left + (now - self._since) * self._rate)
        self._since = now if self._since is None else max(now, self._since)
        if self._left >= 1:
            self._left -= 1
            return 0.0
        return (1 - self._left) / self._rate


class Buckets:
    """A bucket for each key; those longest unused are forgotten beyond a bound."""

    def __init__(self, rate: float, burst: float, most: int = 10_000) -> None:
        Bucket(rate, burst)  # refuses now what it would refuse later
        self._rate = rate
        self._burst = burst
        self._buckets = BoundedDict[Hashable, Bucket](most)

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, key: Hashable, now: float) -> float:
        """The same as `Bucket.take`, for this key."""
        bucket = self._buckets.get_and_refresh(key)
        if bucket is None:
            bucket = self._buckets[key] = Bucket(self._rate, self._burst)
        return bucket.take(now)


def too_many(what: str, seconds: float) -> ProtocolError:
    """The error for a request over a limit, saying when to come again."""
    wait = max(1, round(seconds * 1000))
    return ProtocolError(TOO_MANY_REQUESTS, f"Too many {what}; try again in {wait} ms", {"retryAfterMs": wait})
