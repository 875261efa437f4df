"""Ready-made middleware for servers and clients, and the types for writing your own.

    from dovetail.middleware import RateLimit, Timing

    server = Server("name", middleware=[Timing(), RateLimit(10, burst=50)])

Each class is imported at first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dovetail import lazily

if TYPE_CHECKING:
    from dovetail.middleware.mask_errors import MaskErrors
    from dovetail.middleware.rate_limit import RateLimit
    from dovetail.middleware.retry import Retries
    from dovetail.middleware.sanitize import CleanOutput
    from dovetail.middleware.size_limit import SizeLimit
    from dovetail.middleware.telemetry import Telemetry
    from dovetail.middleware.timing import Timing
    from dovetail.runtime.middleware import Exchange, Middleware, Proceed

_HOMES = {
    "CleanOutput": "middleware.sanitize",
    "Exchange": "runtime.middleware",
    "MaskErrors": "middleware.mask_errors",
    "Middleware": "runtime.middleware",
    "Proceed": "runtime.middleware",
    "RateLimit": "middleware.rate_limit",
    "Retries": "middleware.retry",
    "SizeLimit": "middleware.size_limit",
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
