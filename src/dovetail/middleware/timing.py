"""Durations of requests."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

from dovetail.runtime.middleware import Exchange, Proceed

logger = logging.getLogger("dovetail.timing")

Outcome: TypeAlias = Literal["ok", "failed", "error"]
Report: TypeAlias = "Callable[[Exchange, float, Outcome], None]"
"""Called with the request, its duration in seconds, and its outcome; `failed` is an `isError` result."""


class Timing:
    """Reports the duration of every request to a function, or to the logger `dovetail.timing`.

    With `slow`, only requests that took at least that many seconds.
    """

    def __init__(self, report: Report | None = None, *, slow: float = 0.0) -> None:
        self._report = report or _log
        self._slow = slow

    async def __call__(self, exchange: Exchange, proceed: Proceed) -> dict[str, Any]:
        """Measure a request."""
        outcome: Outcome = "error"
        began = time.perf_counter()
        try:
            result = await proceed(exchange)
            outcome = "failed" if result.get("isError") is True else "ok"
            return result
        finally:
            seconds = time.perf_counter() - began
            if seconds >= self._slow:
                try:
                    self._report(exchange, seconds, outcome)
                except Exception:
                    logger.exception("The report function of Timing failed")


def _log(exchange: Exchange, seconds: float, outcome: Outcome) -> None:
    target = exchange.target
    what = exchange.method if target is None else f"{exchange.method} {target[:200]!r}"
    logger.info("%s %s: %s in %.1f ms", exchange.way, what, outcome, seconds * 1000)
