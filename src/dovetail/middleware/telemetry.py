"""Traces and metrics, for those who have installed OpenTelemetry; for all others it costs nothing."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

from dovetail.runtime.middleware import Exchange, Proceed
from dovetail.types.errors import missing_extra

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider


class Telemetry:
    """Makes a span of every request, hands the trace on in `_meta`, and measures durations.

    Without providers it uses those that the application has set. Put it first, so that it sees what the
    other middleware does.
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
        """Pass a request on inside of a span."""
        return self._spans.trace(exchange, proceed)
