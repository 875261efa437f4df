"""Traces over real connections: one trace from the client through the server and back."""

import asyncio
import sys
from dataclasses import dataclass
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk", reason="opentelemetry-sdk is not installed")

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind

from dovetail import Client, Context, RemoteError, Server
from dovetail.middleware import Telemetry
from dovetail.protocol.revisions import REVISIONS
from tests.support.oracle import Oracle

every_revision = pytest.mark.parametrize("revision", REVISIONS)

OVER_THERE = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from dovetail import Server
from dovetail.middleware import Telemetry

server = Server("there", middleware=[Telemetry(tracer_provider=TracerProvider())])

@server.tool
async def where() -> str:
    return f"{trace.get_current_span().get_span_context().trace_id:032x}"

server.run()
"""


@dataclass
class Confirm:
    ok: bool


class Traced:
    """Spans of a client and a server, and what makes them."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.middleware = Telemetry(tracer_provider=self.provider)

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self._exporter.get_finished_spans() if span.name == name]

    def pair(self, name: str) -> tuple[ReadableSpan, ReadableSpan]:
        """The client's and the server's span of the one request of this name."""
        spans = {span.kind: span for span in self.named(name)}
        assert len(self.named(name)) == 2
        return spans[SpanKind.CLIENT], spans[SpanKind.SERVER]


def asking(traced: Traced) -> Server:
    server = Server("traced", middleware=[traced.middleware])

    @server.tool
    async def look() -> str:
        with traced.provider.get_tracer("handler").start_as_current_span("inside"):
            return "seen"

    @server.tool
    async def crash() -> str:
        raise ValueError("deep inside")

    @server.tool
    async def ask(ctx: Context) -> bool:
        return (await ctx.elicit("Sure?", Confirm)).data.ok

    @server.resource("a://b")
    def thing() -> str:
        return "thing"

    return server


def ids(span: Any) -> tuple[int, int]:
    context = span.context if isinstance(span, ReadableSpan) else span
    assert context is not None
    return context.trace_id, context.span_id


@every_revision
async def test_one_trace_through_client_server_and_handler(revision: str) -> None:
    traced, oracle = Traced(), Oracle()
    async with Client(asking(traced), revision=revision, middleware=[traced.middleware], trace=oracle) as client:
        with traced.provider.get_tracer("app").start_as_current_span("app") as app:
            await client.call("look")
            await client.read("a://b")
    sent, served = traced.pair("tools/call look")
    [inside] = traced.named("inside")
    assert ids(sent.parent) == ids(app.get_span_context())
    assert ids(served.parent) == ids(sent)
    assert ids(inside.parent) == ids(served)
    assert (sent.attributes or {})["jsonrpc.request.id"] == (served.attributes or {})["jsonrpc.request.id"]
    assert (served.attributes or {})["mcp.protocol.version"] == revision
    traced.pair("resources/read")
    oracle.verdict()


@every_revision
async def test_failures_are_seen_on_both_sides(revision: str) -> None:
    traced = Traced()
    async with Client(asking(traced), revision=revision, middleware=[traced.middleware]) as client:
        await client.call("crash", check=False)
        with pytest.raises(RemoteError):
            await client.call("nothing")
    for span in traced.pair("tools/call crash"):
        assert (span.attributes or {})["error.type"] == "tool_error"
    sent, served = traced.pair("tools/call crash")
    assert sent.events == ()
    assert [(event.attributes or {})["exception.message"] for event in served.events] == ["deep inside"]
    for span in traced.pair("tools/call nothing"):
        assert (span.attributes or {})["error.type"] == "-32602"


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25"])
async def test_a_question_is_part_of_the_trace(revision: str) -> None:
    traced = Traced()
    options: dict[str, Any] = {"on_elicit": lambda _: {"ok": True}, "middleware": [traced.middleware]}
    async with Client(asking(traced), revision=revision, **options) as client:
        assert (await client.call("ask")).data is True
    _, served = traced.pair("tools/call ask")
    asked, answered = traced.pair("elicitation/create")
    assert ids(asked.parent) == ids(served)
    assert ids(answered.parent) == ids(asked)


async def test_every_round_is_a_span_of_its_own() -> None:
    traced = Traced()
    options: dict[str, Any] = {"on_elicit": lambda _: {"ok": True}, "middleware": [traced.middleware]}
    async with Client(asking(traced), revision="2026-07-28", **options) as client:
        assert (await client.call("ask")).data is True
    served = [span for span in traced.named("tools/call ask") if span.kind is SpanKind.SERVER]
    assert [(span.attributes or {}).get("dovetail.result_type") for span in served] == ["input_required", None]
    assert all("error.type" not in (span.attributes or {}) for span in served)


async def test_a_trace_goes_into_another_process() -> None:
    traced = Traced()
    code = f"import sys; sys.path[:0] = {sys.path!r}\n{OVER_THERE}"
    async with Client([sys.executable, "-c", code], middleware=[traced.middleware]) as client:
        there = (await client.call("where")).data
    [sent] = traced.named("tools/call where")
    assert there == f"{ids(sent)[0]:032x}"


async def test_a_cancelled_call_ends_its_spans() -> None:
    traced = Traced()
    server, started = Server("traced", middleware=[traced.middleware]), asyncio.Event()

    @server.tool
    async def forever() -> None:
        started.set()
        await asyncio.Event().wait()

    async with Client(server, middleware=[traced.middleware]) as client:
        call = asyncio.ensure_future(client.call("forever"))
        await started.wait()
        call.cancel()
        await asyncio.wait({call})
        while len(traced.named("tools/call forever")) < 2:
            await asyncio.sleep(0.001)
    for span in traced.pair("tools/call forever"):
        assert (span.attributes or {})["error.type"] == "cancelled"
    assert not trace.get_current_span().get_span_context().is_valid
