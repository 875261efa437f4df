"""How often a server that is gone is started anew."""

from __future__ import annotations

import asyncio
import time

from dovetail.protocol.errors import ConnectionLost
from dovetail.protocol.rates import Bucket

AT_ONCE = 3
SECONDS_EACH = 20.0
"""A server that ends as soon as it is used is not started over and over."""


class Restarts:
    """Counts restarts, and lets one caller at a time begin one."""

    def __init__(self) -> None:
        self.turn = asyncio.Lock()
        self._bucket = Bucket(1 / SECONDS_EACH, AT_ONCE)

    def count(self, reason: str | None) -> None:
        """One more; too many in too short a time are refused."""
        wait = self._bucket.take(time.monotonic())
        if wait > 0:
            why = reason or "the server could not be reached"
            raise ConnectionLost(f"{why}; it was started anew too often, the next time is in {wait:.0f} s")
