"""Rotation of sealing keys that replicas share: each period of time has one key, which seals during that period.

A key opens the states that it sealed until the last of them has expired, and is not looked for then unless something
that is kept in a store names it; the store drops it when that has expired too. Clocks of replicas may differ: the key
of the next period is fetched early, and the key of the last one is kept longer, so that each replica can open what
another with a slightly different clock sealed.
"""

from __future__ import annotations

from .mrtr import MAX_STATE_SECONDS

PERIOD_SECONDS = 24 * 3600
"""Seconds for which a key seals."""

MAX_SEALED_SECONDS = 30 * PERIOD_SECONDS
"""Seconds for which something that is kept in a store, such as a task, may stay sealed with the same key."""

CLOCK_DIFFERENCE_SECONDS = 300
"""Seconds by which the clocks of replicas may differ."""


def sealing_period(now: float) -> int:
    """The period whose key seals now."""
    return int(now // PERIOD_SECONDS)


def usable_periods(now: float) -> list[int]:
    """The periods whose keys may be needed now: first the one that seals, then those that only open."""
    period = sealing_period(now)
    periods = [period]
    if now >= _end(period) - CLOCK_DIFFERENCE_SECONDS:
        periods.append(period + 1)
    if now < dropped_at(period - 1):
        periods.append(period - 1)
    return periods


def older_periods(now: float) -> list[int]:
    """The periods whose keys open only what is kept in a store, the newest first."""
    period, usable = sealing_period(now), usable_periods(now)
    oldest = period - MAX_SEALED_SECONDS // PERIOD_SECONDS - 1
    return [older for older in range(period - 1, oldest - 1, -1) if older not in usable]


def next_change(now: float) -> float:
    """The time when other periods will be usable than now, or another one will seal."""
    period = sealing_period(now)
    changes = dropped_at(period - 1), _end(period) - CLOCK_DIFFERENCE_SECONDS, _end(period)
    return min(change for change in changes if change > now)


def dropped_at(period: int) -> float:
    """The time when every state that the key of a period sealed has expired, by the clock of every replica."""
    return _end(period) + MAX_STATE_SECONDS + CLOCK_DIFFERENCE_SECONDS


def removed_at(period: int) -> float:
    """The time when everything that the key of a period sealed has expired."""
    return _end(period) + MAX_SEALED_SECONDS + CLOCK_DIFFERENCE_SECONDS


def _end(period: int) -> float:
    return float((period + 1) * PERIOD_SECONDS)
