"""How long requests take."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

from dovetail.runtime.middleware import Exchange, Proceed

logger = logging.getLogger("dovetail.timing")

Outcome: TypeAlias = Literal["ok", "failed", "error"]
Report: TypeAlias = "Callable[[Exchange, float, Outcome], None]"
"""Takes the request, the seconds it took, and whether it went well, was an `isError` result, or an error."""


class Timing:
    """Reports the time of every request to a function, or to the log of `dovetail.timing`.

    With `slow`, only of those that took at least that many seconds.
    """

    def __init__(self, report: Report | None = None, *, slow: float = 0.0) -> None:
        self._report = report or _log
        self._slow = slow

    async def __call__(self, exchange: Exchange, proceed: Proceed) -> dict[str, Any]:
        """Time a request."""
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
                    logger.exception("A report of timing failed")


def _log(exchange: Exchange, seconds: float, outcome: Outcome) -> None:
    target = exchange.target
    what = exchange.method if target is None else f"{exchange.method} {target[:200]!r}"
    logger.info("%s %s: %s in %.1f ms", exchange.way, what, outcome, seconds * 1000)
