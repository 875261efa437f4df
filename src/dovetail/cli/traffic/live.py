"""Traffic of a running host: the log of exchanges, and listeners that follow it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Generator
from typing import TypeAlias

from dovetail.host.events import TrafficLine
from dovetail.runtime.rate_limit import TokenBucket

from .exchange import TrafficExchange
from .filters import TrafficFilter
from .pairing import TrafficLog

OnExchange: TypeAlias = "Callable[[TrafficLine, list[TrafficExchange]], None]"
"""Takes a message, and the exchanges that it began, continued or completed."""

LINES_PER_SECOND = 50.0
"""Exchanges that a follower shows; more are counted."""
_WAITING_SECONDS = 1.0
"""A request without an answer is shown after this time, and again with its answer."""


class LiveTraffic:
    """The latest exchanges of a host; `on_traffic` is the host's."""

    def __init__(self, log: TrafficLog | None = None) -> None:
        self.log = log or TrafficLog()
        self._listeners: dict[object, OnExchange] = {}

    def on_traffic(self, line: TrafficLine) -> None:
        """Add a message."""
        self.add(line)

    def add(self, line: TrafficLine) -> list[TrafficExchange]:
        """Add a message; returns the exchanges that it began, continued or completed."""
        touched = self.log.add(line)
        for listener in list(self._listeners.values()):
            listener(line, touched)
        return touched

    @contextlib.contextmanager
    def listening(self, listener: OnExchange) -> Generator[None]:
        """Call a listener for each message, within the `with`."""
        key = object()
        self._listeners[key] = listener
        try:
            yield
        finally:
            del self._listeners[key]


class TrafficFollower:
    """Shows each exchange once it is complete; one that takes long is also shown while it waits."""

    def __init__(self, wanted: TrafficFilter, show: Callable[[TrafficExchange], None]) -> None:
        self._wanted = wanted
        self._show = show
        self._shown: dict[int, str] = {}
        """Numbers of shown exchanges, with the outcome that was shown."""
        self._rate = TokenBucket(LINES_PER_SECOND, 2 * LINES_PER_SECOND)
        self._timers: set[asyncio.TimerHandle] = set()
        self.skipped = 0
        """Exchanges that were not shown because there were too many."""

    def on_exchange(self, line: TrafficLine, touched: list[TrafficExchange]) -> None:
        """Show what a message completed."""
        for exchange in touched:
            if exchange.outcome != "waiting":
                self._tell(exchange)
            elif line is exchange.request:
                self._tell_later(exchange)

    def close(self) -> None:
        """Show nothing any more."""
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()

    def _tell_later(self, exchange: TrafficExchange) -> None:
        def tell() -> None:
            self._timers.discard(timer)
            if exchange.outcome == "waiting":
                self._tell(exchange)

        timer = asyncio.get_running_loop().call_later(_WAITING_SECONDS, tell)
        self._timers.add(timer)

    def _tell(self, exchange: TrafficExchange) -> None:
        if self._shown.get(exchange.number) == exchange.outcome or not self._wanted.matches(exchange):
            return
        if self._rate.take(time.monotonic()) > 0:
            self.skipped += 1
            return
        self._shown[exchange.number] = exchange.outcome
        while len(self._shown) > 1_000:
            del self._shown[next(iter(self._shown))]
        self._show(exchange)
