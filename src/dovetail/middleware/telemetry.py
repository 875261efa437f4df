"""Traces and metrics with OpenTelemetry, which is imported only here."""

from __future__ import annotations

import sys
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

from dovetail.runtime.middleware import Exchange, Proceed
from dovetail.types.errors import missing_extra

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider


def trace_context() -> dict[str, str]:
    """The context of the span that is recorded now, as fields of `_meta`; empty without a span."""
    propagate = sys.modules.get("opentelemetry.propagate")
    carrier: dict[str, str] = {}
    if propagate is not None:  # otherwise nothing in this process records spans
        propagate.inject(carrier)
    return carrier


def flush_telemetry(seconds: float) -> None:
    """Export what is recorded, where a process ends without the functions that are registered with `atexit`."""
    for name, provider_of in (("trace", "get_tracer_provider"), ("metrics", "get_meter_provider")):
        module = sys.modules.get(f"opentelemetry.{name}")
        # The providers of the API, which export nothing, have no such method.
        flush = None if module is None else getattr(getattr(module, provider_of)(), "force_flush", None)
        if flush is not None:
            flush(int(seconds * 1000))


class Telemetry:
    """Records a span and the duration of every request, and sends the trace context in `_meta`.

    By default it uses the providers that the application has set. Put it first, so that its spans include the other
    middleware.
    """

    def __init__(
        self, *, tracer_provider: TracerProvider | None = None, meter_provider: MeterProvider | None = None
    ) -> None:
        try:
            from .spans import Spans
        except ModuleNotFoundError as missing:
            if (missing.name or "").split(".")[0] != "opentelemetry":
                raise
            raise missing_extra("otel", "Telemetry") from None
        self._spans = Spans(tracer_provider, meter_provider)

    def __call__(self, exchange: Exchange, proceed: Proceed) -> Awaitable[dict[str, Any]]:
        """Pass a request on inside a span."""
        return self._spans.trace(exchange, proceed)
