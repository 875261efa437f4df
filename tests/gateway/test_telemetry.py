"""Spans of client, gateway and server, which are one trace."""

from __future__ import annotations

import itertools

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from dovetail import Client, Gateway, Server
from dovetail.middleware import Telemetry


class Recorder:
    """Records the spans of one process, so to speak: each side has a provider of its own."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.telemetry = Telemetry(tracer_provider=provider)

    def span(self, name: str) -> ReadableSpan:
        (found,) = [span for span in self._exporter.get_finished_spans() if span.name == name]
        return found


@pytest.mark.parametrize("back", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize("front", ["2025-11-25", "2026-07-28"])
async def test_a_call_is_one_trace_through_the_gateway(front: str, back: str) -> None:
    client, gateway, server = Recorder(), Recorder(), Recorder()
    behind = Server("notes", revisions=[back], middleware=[server.telemetry])

    @behind.tool
    async def add(a: int, b: int) -> int:
        return a + b

    joined = Gateway({"notes": behind}, middleware=[gateway.telemetry])
    async with Client(joined, revision=front, middleware=[client.telemetry]) as connected:
        assert (await connected.call("notes__add", a=1, b=2)).data == 3
    await joined.close()
    spans = client.span("tools/call notes__add"), gateway.span("tools/call notes__add"), server.span("tools/call add")
    assert len({span.context.trace_id for span in spans if span.context is not None}) == 1
    for parent, child in itertools.pairwise(spans):
        assert child.parent is not None
        assert parent.context is not None
        assert child.parent.span_id == parent.context.span_id


async def test_without_spans_of_its_own_the_gateway_passes_the_context_on() -> None:
    client, server = Recorder(), Recorder()
    behind = Server("notes", middleware=[server.telemetry])

    @behind.tool
    async def add(a: int, b: int) -> int:
        return a + b

    joined = Gateway({"notes": behind})
    async with Client(joined, middleware=[client.telemetry]) as connected:
        await connected.call("notes__add", a=1, b=2)
    await joined.close()
    sent, received = client.span("tools/call notes__add"), server.span("tools/call add")
    assert sent.context is not None
    assert received.parent is not None
    assert received.parent.span_id == sent.context.span_id
