"""Arithmetic of token buckets whose whole state is one time, with the current time as an argument."""

from __future__ import annotations

_ROUNDING = 1e-6
"""Seconds by which times may be wrong: a caller that waits as long as it was told must succeed."""


def take(full_at: float, now: float, rate: float, size: float, tokens: float) -> tuple[float, float]:
    """Take tokens from a bucket that is full at a certain time; its new time, and 0.0 or the seconds to wait.

    The tokens that it lacks now are those added until it is full. So one number is enough, and a bucket whose time has
    passed needs no storage.
    """
    taken = max(full_at, now) + tokens / rate
    wait = taken - size / rate - now
    if wait <= _ROUNDING:
        return taken, 0.0
    return full_at, wait if tokens <= size else float("inf")
