"""Requirements on messages, whatever they are about: their encoding, names, numbers and codes."""

import asyncio
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from dovetail import Client, Server
from dovetail.protocol.errors import NotFound, RemoteError
from dovetail.types.tools import CallToolResult
from tests.matrix.connections import Transport, on_envelope, on_handshake, reached, target
from tests.support.oracle import Oracle
from tests.support.scripted import Error, Scripted, discovery, modern, welcome

LABEL = r"[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
META_KEY = re.compile(rf"(?:{LABEL}(?:\.{LABEL})*/)?(?:[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?)?")


def metas(value: Any) -> list[dict[str, Any]]:
    """Every `_meta` at any depth."""
    if isinstance(value, list):
        return [found for item in value for found in metas(item)]
    if not isinstance(value, dict):
        return []
    own = [value["_meta"]] if isinstance(value.get("_meta"), dict) else []
    return own + [found for item in value.values() for found in metas(item)]


async def test_a_result_without_a_type_is_complete() -> None:
    server = Scripted(
        server_discover={key: value for key, value in discovery().items() if key != "resultType"},
        tools_list={"tools": []},
        tools_call={"content": [{"type": "text", "text": "as before"}]},
    )
    async with Client(server) as client:
        assert client.revision == "2026-07-28"
        assert (await client.call("t")).text == "as before"


@pytest.mark.parametrize("code", [-32000, -32001, -32003, -32019])
async def test_old_codes_mean_nothing_in_particular(code: int) -> None:
    async with Client(modern(resources_read=Error(code, "no"))) as client:
        with pytest.raises(RemoteError) as caught:
            await client.read("a://b")
    assert type(caught.value) is RemoteError
    assert not isinstance(caught.value, NotFound)
    assert caught.value.code == code


async def test_metadata_under_any_key_passes_through(revision: str) -> None:
    """Also what stands under a key that only the protocol may use, and that nobody knows yet."""
    odd = {"io.modelcontextprotocol/yet-to-come": [1, {"a": None}], "mcp.dev/x": 0, "com.example/": ""}
    server = Server("meta")

    @server.tool
    def back() -> CallToolResult:
        return CallToolResult([], meta=odd)

    async with Client(server, revision=revision) as client:
        result = await client.call("back")
    assert {key: (result.meta or {}).get(key) for key in odd} == odd


async def test_the_keys_of_meta_that_we_write_are_well_formed(client: Client, oracle: Oracle, revision: str) -> None:
    await client.tools()
    await client.call("add", a=1, b=2, progress=lambda *_: None)
    await client.resources()
    await client.prompts()
    found = [key for message in oracle.messages for meta in metas(message.body) for key in meta]
    assert found
    assert [key for key in found if not META_KEY.fullmatch(key)] == []


@pytest.mark.parametrize("key", ["a/b/c", "1a/b", "a-/b", "a..b/c", "-a", "a_"])
def test_a_key_that_is_not_well_formed_would_be_found(key: str) -> None:
    assert not META_KEY.fullmatch(key)


@on_handshake
async def test_the_handshake_is_confirmed(revision: str) -> None:
    server = Scripted(initialize=welcome(protocolVersion=revision), tools_list={"tools": []})
    async with Client(server, revision=revision) as client:
        await client.tools()
    assert server.methods[:3] == ["initialize", "notifications/initialized", "tools/list"]
    assert "id" not in server.asked[1]


async def test_text_beyond_ascii_travels_as_utf8(transport: Transport, revision: str) -> None:
    """The bytes themselves are looked at, as the client sends and receives them."""
    lines: list[bytes] = []
    text = "Grüße, 世界 🕊"
    async with (
        reached(target(transport)) as (where, *_),
        Client(where, revision=revision, trace=lambda _, line: lines.append(line)) as client,
    ):
        assert text in (await client.call("greet", name=text)).text
    assert sum(text.encode() in line for line in lines) == 2


async def test_progress_tokens_are_unique(client: Client, oracle: Oracle) -> None:
    """Among all that are active at once."""
    calls = [client.call("add", a=number, b=0, progress=lambda *_: None) for number in range(20)]
    await asyncio.gather(*calls)
    tokens = [each.params["_meta"]["progressToken"] for each in oracle.sent_by("client", "tools/call")]
    assert len(tokens) == 20
    assert len({json.dumps(token) for token in tokens}) == 20
    assert all(type(token) in (int, str) for token in tokens)


RECORDER = """
import json, sys
offered = {"tools": {}}
with open(sys.argv[1], "ab") as file:
    for line in sys.stdin.buffer:
        file.write(line)
        file.flush()
        message = json.loads(line)
        if message.get("method") == "initialize":
            info = {"name": "recorder", "version": "1"}
            asked = message["params"]["protocolVersion"]
            result = {"protocolVersion": asked, "capabilities": offered, "serverInfo": info}
        elif message.get("method") == "server/discover":
            result = {"supportedVersions": ["2026-07-28"], "capabilities": offered, "resultType": "complete",
                      "ttlMs": 0, "cacheScope": "private"}
        elif message.get("method") == "tools/list":
            result = {"tools": [], "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        else:
            continue
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""


async def test_a_client_writes_nothing_but_messages(revision: str, tmp_path: Path) -> None:
    """All bytes that reach the stdin of a process, from the first to the last."""
    script, record = tmp_path / "recorder.py", tmp_path / "record"
    script.write_text(RECORDER)
    async with Client([sys.executable, str(script), str(record)], revision=revision) as client:
        await client.tools()
        with pytest.raises(TimeoutError):
            await client.call("never", text="a\nb", timeout=0.1)
    written = record.read_bytes()
    assert written.endswith(b"\n")
    messages = [json.loads(line) for line in written[:-1].split(b"\n")]
    assert {"tools/list", "tools/call", "notifications/cancelled"} <= {message["method"] for message in messages}
    assert all(message["jsonrpc"] == "2.0" for message in messages)


@on_envelope
async def test_traces_are_written_as_the_w3c_says(revision: str) -> None:
    """Trace Context, "traceparent Header Field Values" and "tracestate Header"; Baggage, "Header Content"."""
    from opentelemetry import baggage, context
    from opentelemetry.sdk.trace import TracerProvider

    from dovetail.middleware.telemetry import Telemetry

    provider = TracerProvider()
    server = modern(tools_call={"resultType": "complete", "content": []})
    held = context.attach(baggage.set_baggage("who", "Ann, of course"))
    try:
        async with Client(server, revision=revision, middleware=[Telemetry(tracer_provider=provider)]) as client:
            with provider.get_tracer("test").start_as_current_span("outer"):
                await client.call("t")
    finally:
        context.detach(held)
        provider.shutdown()
    [meta] = [message["params"]["_meta"] for message in server.asked if message.get("method") == "tools/call"]
    assert re.fullmatch(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}", meta["traceparent"])
    assert re.fullmatch(r"who=[\x21\x23-\x2b\x2d-\x3a\x3c-\x5b\x5d-\x7e]*", meta["baggage"])
    assert "tracestate" not in meta or re.fullmatch(r"[ -~]*", meta["tracestate"])
