"""Middleware for servers and clients alike, and what it takes to write one.

    from dovetail.middleware import RateLimit, Timing

    server = Server("name", middleware=[Timing(), RateLimit(10, burst=50)])

Each is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dovetail import lazily

if TYPE_CHECKING:
    from dovetail.middleware.cleaning import CleanOutput
    from dovetail.middleware.masking import MaskErrors
    from dovetail.middleware.rates import RateLimit
    from dovetail.middleware.retries import Retries
    from dovetail.middleware.sizes import SizeLimit
    from dovetail.middleware.telemetry import Telemetry
    from dovetail.middleware.timing import Timing
    from dovetail.runtime.middleware import Exchange, Middleware, Proceed

_HOMES = {
    "CleanOutput": "middleware.cleaning",
    "Exchange": "runtime.middleware",
    "MaskErrors": "middleware.masking",
    "Middleware": "runtime.middleware",
    "Proceed": "runtime.middleware",
    "RateLimit": "middleware.rates",
    "Retries": "middleware.retries",
    "SizeLimit": "middleware.sizes",
    "Telemetry": "middleware.telemetry",
    "Timing": "middleware.timing",
}

__all__ = [
    "CleanOutput",
    "Exchange",
    "MaskErrors",
    "Middleware",
    "Proceed",
    "RateLimit",
    "Retries",
    "SizeLimit",
    "Telemetry",
    "Timing",
]


__getattr__ = lazily(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
