"""Spans and durations with the names of OpenTelemetry's conventions for MCP (semconv gen-ai/mcp).

The trace context is sent in `_meta` under the reserved keys (2026-07-28 basic, "OpenTelemetry trace context").
Unknown tool names and methods are not attributes of metrics, because a client can invent any number of them.
"""

from __future__ import annotations

import asyncio
from time import perf_counter
from typing import Any, TypeAlias, cast

from opentelemetry import context, metrics, propagate, trace
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import Link, SpanKind, Status, StatusCode, TracerProvider

from dovetail import __version__
from dovetail.protocol.errors import INTERNAL_ERROR, INVALID_PARAMS, ProtocolError, RemoteError, Timeout
from dovetail.runtime.middleware import Exchange, Proceed

SCOPE = "dovetail"
BUCKETS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)
"""Histogram boundaries in seconds, as the conventions recommend."""

RESULT_TYPE = "dovetail.result_type"
"""Attribute of a span whose result is not complete, such as `input_required`."""

_NAMES = {"tools/call": "gen_ai.tool.name", "prompts/get": "gen_ai.prompt.name"}
_UNKNOWN_METHOD = "_OTHER"

Attributes: TypeAlias = dict[str, str]


class Spans:
    """Records one span and one duration per request, on either side."""

    def __init__(self, tracer_provider: TracerProvider | None, meter_provider: MeterProvider | None) -> None:
        self._note = f"telemetry {id(tracer_provider)} {id(meter_provider)}"
        """The note of a request that is being recorded for these providers: twice would count it twice."""
        self._tracer = trace.get_tracer(SCOPE, __version__, tracer_provider)
        meter = metrics.get_meter(SCOPE, __version__, meter_provider)
        self._durations = {
            way: meter.create_histogram(
                f"mcp.{side}.operation.duration",
                unit="s",
                description=f"The duration of an MCP request as its {seen} sees it.",
                explicit_bucket_boundaries_advisory=BUCKETS,
            )
            for way, side, seen in (("in", "server", "receiver"), ("out", "client", "sender"))
        }

    async def trace(self, exchange: Exchange, proceed: Proceed) -> dict[str, Any]:
        """Pass a request on inside a span."""
        if self._note in exchange.notes:
            return await proceed(exchange)
        exchange.notes[self._note] = True
        attributes = _attributes(exchange)
        span, inner = self._start(exchange, attributes)
        failure: Attributes = {}
        token = context.attach(inner)
        began = perf_counter()
        try:
            result = await proceed(exchange)
            failure = _failed_result(exchange, result, span)
            return result
        except BaseException as problem:
            failure = _failure(exchange, problem)
            span.set_status(Status(StatusCode.ERROR, _message(problem)))
            if not isinstance(problem, (ProtocolError, RemoteError, asyncio.CancelledError)):
                span.record_exception(problem)
            raise
        finally:
            took = perf_counter() - began
            del exchange.notes[self._note]
            context.detach(token)
            span.set_attributes(failure)
            if exchange.id is not None:
                span.set_attribute("jsonrpc.request.id", str(exchange.id))
            span.end()
            metric_attributes = _metric_attributes(exchange, attributes, failure)
            self._durations[exchange.way].record(took, metric_attributes, context=inner)

    def _start(self, exchange: Exchange, attributes: Attributes) -> tuple[trace.Span, context.Context]:
        """Start a span; also returns the context with it. The span of the other side is its parent, if there is one."""
        around = context.get_current()
        name = " ".join([exchange.method, *(attributes[key] for key in _NAMES.values() if key in attributes)])
        span_attributes = {**attributes, **_address(exchange)}
        if exchange.way == "out":
            span = self._tracer.start_span(name, around, SpanKind.CLIENT, span_attributes)
            inner = trace.set_span_in_context(span, around)
            carrier: Attributes = {}
            propagate.inject(carrier, inner)
            if carrier:
                exchange.params = {**exchange.params, "_meta": {**_meta(exchange), **carrier}}
            return span, inner
        carrier = {key: value for key, value in _meta(exchange).items() if isinstance(value, str)}
        parent = propagate.extract(carrier, around)
        ambient = trace.get_current_span(around).get_span_context()
        foreign = ambient.is_valid and trace.get_current_span(parent).get_span_context() != ambient
        links = [Link(ambient)] if foreign else None
        span = self._tracer.start_span(name, parent, SpanKind.SERVER, span_attributes, links)
        return span, trace.set_span_in_context(span, parent)


def _attributes(exchange: Exchange) -> Attributes:
    """The attributes of both the span and the duration."""
    attributes = {"mcp.method.name": exchange.method, "mcp.protocol.version": exchange.revision.name}
    target = exchange.target
    if target is not None and (key := _NAMES.get(exchange.method)) is not None:
        attributes[key] = target
    if exchange.method == "tools/call":
        attributes["gen_ai.operation.name"] = "execute_tool"
    return attributes


def _address(exchange: Exchange) -> Attributes:
    uri = exchange.params.get("uri")
    return {"mcp.resource.uri": uri} if isinstance(uri, str) else {}


def _meta(exchange: Exchange) -> dict[str, Any]:
    meta = exchange.params.get("_meta")
    return cast("dict[str, Any]", meta) if isinstance(meta, dict) else {}


def _failed_result(exchange: Exchange, result: dict[str, Any], span: trace.Span) -> Attributes:
    """The failure attributes of a result; a tool that failed has a result, too."""
    outcome = result.get("resultType")
    if isinstance(outcome, str) and outcome != "complete":
        span.set_attribute(RESULT_TYPE, outcome)
    if exchange.method != "tools/call" or result.get("isError") is not True:
        return {}
    span.set_status(Status(StatusCode.ERROR))
    if exchange.problem is not None:
        span.record_exception(exchange.problem)
    return {"error.type": "tool_error"}


def _failure(exchange: Exchange, problem: BaseException) -> Attributes:
    if isinstance(problem, (ProtocolError, RemoteError)):
        code = str(problem.code)
        return {"error.type": code, "rpc.response.status_code": code}
    if isinstance(problem, asyncio.CancelledError):
        return {"error.type": "cancelled"}
    if isinstance(problem, Timeout):
        return {"error.type": "timeout"}
    kind = {"error.type": type(problem).__qualname__}
    return {**kind, "rpc.response.status_code": str(INTERNAL_ERROR)} if exchange.way == "in" else kind


def _message(problem: BaseException) -> str | None:
    return problem.message if isinstance(problem, (ProtocolError, RemoteError)) else None


def _metric_attributes(exchange: Exchange, attributes: Attributes, failure: Attributes) -> Attributes:
    """The attributes of the duration, without names that only the peer knows."""
    metric_attributes = {**attributes, **failure}
    if exchange.way == "in" and failure:
        if exchange.method not in exchange.revision.methods:
            metric_attributes["mcp.method.name"] = _UNKNOWN_METHOD
        if failure.get("rpc.response.status_code") == str(INVALID_PARAMS):
            for key in _NAMES.values():
                metric_attributes.pop(key, None)
    return metric_attributes
