"""Deadline of a request: a timeout that progress renews, a maximum that it does not, and pauses.

Lifecycle, "Timeouts": progress may reset the clock, but a maximum should be enforced. A value without a clock: the time
is an argument.
"""

from __future__ import annotations

import msgspec

NEVER = float("inf")

DEFAULT_MAXIMUM = 600.0
"""Seconds that a request with a timeout may take at most, with progress or not, if no other maximum is given."""


class Timeouts:
    """The two limits of a request, in seconds; None for no limit.

    After `quiet` seconds without an answer or progress the request fails; after `maximum` seconds it fails, progress or
    not. Where no maximum is given, it is ten minutes, or `quiet` if that is longer.
    """

    __slots__ = ("maximum", "quiet")

    def __init__(self, quiet: float | None, maximum: float | None = None) -> None:
        self.quiet = quiet
        self.maximum = max(quiet, DEFAULT_MAXIMUM) if maximum is None and quiet is not None else maximum

    def deadline(self, now: float) -> Deadline:
        """The deadline of a request that is sent now."""
        limit = NEVER if self.maximum is None else now + self.maximum
        at = limit if self.quiet is None else min(now + self.quiet, limit)
        return Deadline(at, limit, self.quiet, self.maximum)


class Deadline(msgspec.Struct, frozen=True):
    """The time at which a request fails; the methods return the deadline that follows."""

    at: float
    limit: float
    """The latest time that progress can move it to."""
    quiet: float | None
    maximum: float | None
    paused_at: float | None = None

    def renewed(self, now: float) -> Deadline:
        """After progress: the timeout begins again, up to the maximum."""
        if self.quiet is None:
            return self
        begin = now if self.paused_at is None else self.paused_at
        return msgspec.structs.replace(self, at=min(begin + self.quiet, self.limit))

    def paused(self, now: float) -> Deadline:
        """From now on no time counts."""
        return self if self.paused_at is not None else msgspec.structs.replace(self, paused_at=now)

    def resumed(self, now: float) -> Deadline:
        """Time counts again: what was left at the pause is left now."""
        if self.paused_at is None:
            return self
        passed = now - self.paused_at
        return msgspec.structs.replace(self, at=self.at + passed, limit=self.limit + passed, paused_at=None)

    def due(self, now: float) -> bool:
        """True if the time is up."""
        return self.paused_at is None and now >= self.at

    @property
    def exceeded(self) -> float | None:
        """The limit that applies at this deadline, in seconds: the maximum or the timeout; None if there is none."""
        return self.maximum if self.at >= self.limit else self.quiet

    @property
    def exceeded_text(self) -> str:
        """The same in words, with the name of the option if it is the maximum."""
        if self.exceeded == self.quiet:
            return f"{self.quiet:g} s"
        return f"{self.maximum:g} s, which max_timeout allows at most, with or without progress"
