"""Poll intervals: how long to wait between two requests for the state of a task."""

from __future__ import annotations

DEFAULT_INTERVAL = 1.0
"""Seconds between polls where the server suggests no interval."""

MIN_INTERVAL = 0.01
MAX_INTERVAL = 3600.0
"""Bounds of the intervals that servers suggest, in seconds."""

BACKOFF_RATIO = 0.1
"""A poll waits at least for this part of the time in which nothing changed: no change is noticed much too late."""

MAX_BACKOFF = 30.0
"""The longest pause in seconds that we choose by ourselves; a server may ask for longer ones."""


def poll_pause(interval_ms: float | None, quiet: float, *, pushed: bool = False) -> float:
    """Seconds from one poll to the next, never fewer than the server asks for.

    `quiet` are the seconds since the last change: the longer a task takes, the fewer the polls. Where changes are
    `pushed`, polls only make up for what a broken connection may have lost.
    """
    interval = DEFAULT_INTERVAL if interval_ms is None or not interval_ms > 0 else interval_ms / 1000
    interval = min(max(interval, MIN_INTERVAL), MAX_INTERVAL)
    return max(interval, MAX_BACKOFF if pushed else min(quiet * BACKOFF_RATIO, MAX_BACKOFF))
