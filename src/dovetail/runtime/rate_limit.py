"""Rate limits: token buckets as plain values, with the time as an argument."""

from __future__ import annotations

from collections.abc import Hashable

from dovetail.protocol.errors import LocalError, ProtocolError
from dovetail.types.bounded_dict import BoundedDict

TOO_MANY_REQUESTS = 429
"""Error code for a request over a rate limit. MCP defines none, and wants one outside the range of JSON-RPC."""


class TokenBucket:
    """A token bucket: `burst` at once, then `rate` per second."""

    __slots__ = ("_burst", "_left", "_rate", "_since")

    def __init__(self, rate: float, burst: float) -> None:
        if not (rate > 0 and burst >= 1):
            raise LocalError(f"A rate limit needs a rate above 0 and a burst of at least 1, not {rate:g} and {burst:g}")
        self._rate = rate
        self._burst = burst
        self._left = burst
        self._since: float | None = None

    def take(self, now: float) -> float:
        """Take one token and return 0, or return the seconds until there is one."""
        wait = self.wait(now)
        if not wait:
            self._left -= 1
        return wait

    def wait(self, now: float) -> float:
        """The seconds until there is a token, which is not taken; 0 if there is one."""
        if self._since is not None and now > self._since:
            self._left = min(self._burst, self._left + (now - self._since) * self._rate)
        self._since = now if self._since is None else max(now, self._since)
        return 0.0 if self._left >= 1 else (1 - self._left) / self._rate


class TokenBuckets:
    """A token bucket for each key; beyond a bound, the least recently used one is dropped."""

    def __init__(self, rate: float, burst: float, most: int = 10_000) -> None:
        TokenBucket(rate, burst)  # raises for invalid values now, not at the first request
        self._rate = rate
        self._burst = burst
        self._buckets = BoundedDict[Hashable, TokenBucket](most)

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, key: Hashable, now: float) -> float:
        """The same as `TokenBucket.take`, for a key."""
        bucket = self._buckets.get_and_refresh(key)
        if bucket is None:
            bucket = self._buckets[key] = TokenBucket(self._rate, self._burst)
        return bucket.take(now)

    def wait(self, key: Hashable, now: float) -> float:
        """The same as `TokenBucket.wait`, for a key."""
        bucket = self._buckets.get(key)
        return 0.0 if bucket is None else bucket.wait(now)


def rate_limit_error(what: str, seconds: float) -> ProtocolError:
    """The error for a request over a limit, with the time to wait."""
    wait = max(1, round(seconds * 1000))
    return ProtocolError(TOO_MANY_REQUESTS, f"Too many {what}; try again in {wait} ms", {"retryAfterMs": wait})
