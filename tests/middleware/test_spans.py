"""Spans and measurements, with the real SDK and requests made by hand."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk", reason="opentelemetry-sdk is not installed")

from opentelemetry import baggage, context, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from dovetail.middleware import Telemetry
from dovetail.middleware.spans import BUCKETS
from dovetail.protocol.errors import INTERNAL_ERROR, ConnectionLost, ProtocolError, RemoteError, Timeout
from dovetail.protocol.revisions import NEWEST
from dovetail.runtime.middleware import Chain, Exchange, Proceed

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "00f067aa0ba902b7"


class Collected:
    """What was told to OpenTelemetry."""

    def __init__(self) -> None:
        self._spans = InMemorySpanExporter()
        self._reader = InMemoryMetricReader()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self._spans))
        self.meters = MeterProvider([self._reader])
        self.middleware = Telemetry(tracer_provider=self.tracers, meter_provider=self.meters)

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self._spans.get_finished_spans())

    @property
    def span(self) -> ReadableSpan:
        [span] = self.spans
        return span

    def measured(self) -> dict[str, list[dict[str, Any]]]:
        """By metric: the attributes of each series."""
        data = self._reader.get_metrics_data()
        if data is None:
            return {}
        return {
            metric.name: [dict(point.attributes or {}) for point in metric.data.data_points]
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }

    def histogram(self) -> Any:
        data = self._reader.get_metrics_data()
        assert data is not None
        [metric] = data.resource_metrics[0].scope_metrics[0].metrics
        return metric

    async def pass_on(self, exchange: Exchange, last: Proceed) -> dict[str, Any]:
        return await Chain([self.middleware]).run(exchange, last)


@pytest.fixture
def collected() -> Iterator[Collected]:
    made = Collected()
    yield made
    made.meters.shutdown()
    made.tracers.shutdown()


def came(method: str = "tools/call", params: dict[str, Any] | None = None) -> Exchange:
    return Exchange("server", "in", method, {"name": "add"} if params is None else params, NEWEST, id=7)


def goes(method: str = "tools/call", params: dict[str, Any] | None = None) -> Exchange:
    return Exchange("client", "out", method, {"name": "add"} if params is None else params, NEWEST)


async def fine(exchange: Exchange) -> dict[str, Any]:
    return {"content": [], "resultType": "complete"}


def fails(problem: BaseException) -> Proceed:
    async def proceed(exchange: Exchange) -> dict[str, Any]:
        raise problem

    return proceed


async def test_a_request_that_came_in_is_a_server_span(collected: Collected) -> None:
    await collected.pass_on(came(), fine)
    span = collected.span
    assert (span.name, span.kind, span.status.status_code) == ("tools/call add", SpanKind.SERVER, StatusCode.UNSET)
    assert dict(span.attributes or {}) == {
        "mcp.method.name": "tools/call",
        "mcp.protocol.version": NEWEST.name,
        "gen_ai.tool.name": "add",
        "gen_ai.operation.name": "execute_tool",
        "jsonrpc.request.id": "7",
    }
    assert span.instrumentation_scope is not None
    assert span.instrumentation_scope.name == "dovetail"
    assert collected.measured() == {
        "mcp.server.operation.duration": [
            {
                "mcp.method.name": "tools/call",
                "mcp.protocol.version": NEWEST.name,
                "gen_ai.tool.name": "add",
                "gen_ai.operation.name": "execute_tool",
            }
        ]
    }


async def test_a_request_that_goes_out_is_a_client_span_under_the_id_it_was_sent_with(collected: Collected) -> None:
    async def sent(exchange: Exchange) -> dict[str, Any]:
        exchange.id = 3
        return {}

    await collected.pass_on(goes("prompts/get", {"name": "review"}), sent)
    span = collected.span
    assert (span.name, span.kind) == ("prompts/get review", SpanKind.CLIENT)
    assert (span.attributes or {})["gen_ai.prompt.name"] == "review"
    assert (span.attributes or {})["jsonrpc.request.id"] == "3"
    assert list(collected.measured()) == ["mcp.client.operation.duration"]


async def test_a_uri_is_an_attribute_and_no_part_of_a_name_or_a_measurement(collected: Collected) -> None:
    await collected.pass_on(came("resources/read", {"uri": "a://b"}), fine)
    assert collected.span.name == "resources/read"
    assert (collected.span.attributes or {})["mcp.resource.uri"] == "a://b"
    [[measured]] = collected.measured().values()
    assert set(measured) == {"mcp.method.name", "mcp.protocol.version"}


async def test_the_trace_goes_along_and_the_other_side_goes_on_with_it(collected: Collected) -> None:
    asked = goes("tools/call", {"name": "add", "_meta": {"progressToken": 1}})
    params = asked.params

    async def serve(exchange: Exchange) -> dict[str, Any]:
        return await collected.pass_on(came("tools/call", exchange.params), fine)

    async def over_there(exchange: Exchange) -> dict[str, Any]:
        # A task begun with an empty context, as the other side of a connection is.
        import contextvars

        return await asyncio.get_running_loop().create_task(serve(exchange), context=contextvars.Context())

    token = context.attach(baggage.set_baggage("user", "alice"))
    try:
        await collected.pass_on(asked, over_there)
    finally:
        context.detach(token)
    inner, outer = collected.spans
    assert (inner.kind, outer.kind) == (SpanKind.SERVER, SpanKind.CLIENT)
    assert inner.parent is not None
    assert outer.context is not None
    assert inner.parent.span_id == outer.context.span_id
    assert inner.parent.is_remote
    assert inner.links == ()
    assert asked.params["_meta"]["progressToken"] == 1
    assert asked.params["_meta"]["baggage"] == "user=alice"
    assert params == {"name": "add", "_meta": {"progressToken": 1}}  # what the caller gave is as it was


async def test_the_span_is_the_current_one_while_the_request_is_served(collected: Collected) -> None:
    meta = {"traceparent": f"00-{TRACE}-{PARENT}-01", "tracestate": "rojo=1", "baggage": "user=alice"}
    seen: list[Any] = []

    async def look(exchange: Exchange) -> dict[str, Any]:
        seen.append(trace.get_current_span().get_span_context())
        seen.append(baggage.get_baggage("user"))
        return {}

    await collected.pass_on(came(params={"name": "add", "_meta": meta}), look)
    assert collected.span.context == seen[0]
    assert f"{seen[0].trace_id:032x}" == TRACE
    assert seen[0].trace_state.get("rojo") == "1"
    assert seen[1] == "alice"
    assert not trace.get_current_span().get_span_context().is_valid


async def test_a_span_around_is_the_parent_or_else_a_link(collected: Collected) -> None:
    tracer = collected.tracers.get_tracer("http")
    with tracer.start_as_current_span("POST") as around:
        await collected.pass_on(came(), fine)
        meta = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
        await collected.pass_on(came(params={"name": "add", "_meta": meta}), fine)
    without, within, _ = collected.spans
    assert without.parent == around.get_span_context()
    assert without.links == ()
    assert within.parent is not None
    assert f"{within.parent.span_id:016x}" == PARENT
    assert [link.context for link in within.links] == [around.get_span_context()]


@pytest.mark.parametrize("meta", [{"traceparent": 5}, {"traceparent": "nonsense"}, {"traceparent": ["a"]}, None, [1]])
async def test_a_trace_that_cannot_be_read_is_none(meta: Any, collected: Collected) -> None:
    await collected.pass_on(came(params={"name": "add", "_meta": meta}), fine)
    assert collected.span.parent is None


@pytest.mark.parametrize(
    ("exchange", "problem", "kind", "code", "words"),
    [
        (came(), ProtocolError(-32603, "broken"), "-32603", "-32603", "broken"),
        (came(), RuntimeError("secret"), "RuntimeError", str(INTERNAL_ERROR), None),
        (came(), asyncio.CancelledError(), "cancelled", None, None),
        (goes(), RemoteError(-32000, "no"), "-32000", "-32000", "no"),
        (goes(), Timeout("late"), "timeout", None, None),
        (goes(), ConnectionLost("gone"), "ConnectionLost", None, None),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_a_failure(
    exchange: Exchange, problem: BaseException, kind: str, code: str | None, words: str | None, collected: Collected
) -> None:
    with pytest.raises(type(problem)):
        await collected.pass_on(exchange, fails(problem))
    span = collected.span
    attributes = dict(span.attributes or {})
    assert (attributes["error.type"], attributes.get("rpc.response.status_code")) == (kind, code)
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, words)
    [[measured]] = collected.measured().values()
    assert measured["error.type"] == kind
    assert measured.get("rpc.response.status_code") == code


async def test_unexpected_errors_are_recorded_and_deliberate_ones_are_not(collected: Collected) -> None:
    for problem in (RuntimeError("unforeseen"), ProtocolError(-32602, "said")):
        with pytest.raises(type(problem)):
            await collected.pass_on(came(), fails(problem))
    unforeseen, said = collected.spans
    assert [event.name for event in unforeseen.events] == ["exception"]
    assert said.events == ()


async def test_a_tool_that_failed_is_a_tool_error(collected: Collected) -> None:
    async def failed(exchange: Exchange) -> dict[str, Any]:
        exchange.problem = ValueError("deep inside")
        return {"content": [], "isError": True}

    await collected.pass_on(came(), failed)
    span = collected.span
    assert (span.attributes or {})["error.type"] == "tool_error"
    assert span.status.status_code is StatusCode.ERROR
    assert [event.name for event in span.events] == ["exception"]
    [[measured]] = collected.measured().values()
    assert measured["error.type"] == "tool_error"
    assert measured["gen_ai.tool.name"] == "add"


async def test_a_call_that_asks_back_has_not_failed(collected: Collected) -> None:
    async def asks(exchange: Exchange) -> dict[str, Any]:
        return {"resultType": "input_required", "requestState": "x"}

    await collected.pass_on(came(), asks)
    assert (collected.span.attributes or {})["dovetail.result_type"] == "input_required"
    assert collected.span.status.status_code is StatusCode.UNSET


async def test_names_that_a_client_makes_up_are_not_counted(collected: Collected) -> None:
    for number in range(3):
        made_up = came(params={"name": f"made up {number}"})
        with pytest.raises(ProtocolError):
            await collected.pass_on(made_up, fails(ProtocolError(-32602, "Unknown tool")))
        with pytest.raises(ProtocolError):
            await collected.pass_on(came(f"made/up{number}", {}), fails(ProtocolError(-32601, "Method not found")))
    [series] = collected.measured().values()
    assert [one["mcp.method.name"] for one in series] == ["tools/call", "_OTHER"]
    assert "gen_ai.tool.name" not in series[0]


async def test_a_method_of_an_extension_that_worked_is_counted_under_its_name(collected: Collected) -> None:
    await collected.pass_on(came("notes/add", {}), fine)
    [[measured]] = collected.measured().values()
    assert measured["mcp.method.name"] == "notes/add"


async def test_durations_are_seconds_in_the_buckets_that_the_conventions_advise(collected: Collected) -> None:
    async def slow(exchange: Exchange) -> dict[str, Any]:
        await asyncio.sleep(0.02)
        return {}

    await collected.pass_on(came(), slow)
    metric = collected.histogram()
    assert metric.unit == "s"
    [point] = metric.data.data_points
    assert tuple(point.explicit_bounds) == BUCKETS
    assert 0.015 < point.sum < 10
