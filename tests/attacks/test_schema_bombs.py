"""Schemas of a server that would take seconds and gigabytes to compile: in results, forms and edited arguments."""

import asyncio
import contextlib
import json
import os
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from dovetail import Client, InvalidAnswer
from dovetail.client.elicitation import Elicitation, read_elicitation
from dovetail.protocol.errors import ProtocolError
from dovetail.types.client_features import ElicitParams
from tests.support.raw import memory

SERVER = """
import json, sys
schema = json.load(open(sys.argv[1]))
tool = {"name": "x", "inputSchema": {"type": "object"}, "outputSchema": schema}
for line in sys.stdin:
    message = json.loads(line)
    method = message.get("method")
    if method == "initialize":
        result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}}
        result["serverInfo"] = {"name": "b", "version": "1"}
    elif method == "tools/list":
        result = {"tools": [tool]}
    elif method == "tools/call":
        result = {"content": [], "structuredContent": {}}
    else:
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""


def bomb(patterns: int) -> dict[str, Any]:
    fields = {f"p{index}": {"type": "string", "pattern": rf"\p{{L}}{{195}}x{index}"} for index in range(patterns)}
    return {"type": "object", "properties": fields}


def offering(schema: dict[str, Any], folder: Path) -> Client:
    """A client of a server whose tool `x` has an output schema."""
    path = folder / "schema.json"
    path.write_text(json.dumps(schema))
    return Client([sys.executable, "-c", SERVER, str(path)], revision="2025-11-25")


@contextlib.asynccontextmanager
async def responsive(seconds: float) -> AsyncIterator[None]:
    """Check that the loop was never blocked for so many seconds of processor time."""
    longest = 0.0

    async def watch() -> None:
        nonlocal longest
        last = time.process_time()
        while True:
            await asyncio.sleep(0)
            now = time.process_time()
            longest, last = max(longest, now - last), now

    watcher = asyncio.create_task(watch())
    try:
        yield
    finally:
        watcher.cancel()
        await asyncio.gather(watcher, return_exceptions=True)
    assert longest < seconds, f"the loop was blocked for {longest:.2f} s"


@pytest.mark.attack("H3")
@pytest.mark.parametrize("patterns", [40, 150])
async def test_an_output_schema_with_large_patterns_fails_the_call_and_blocks_nothing(
    patterns: int, tmp_path: Path
) -> None:
    from dovetail.schema.validation import compile_schema

    compile_schema({})
    before = memory(os.getpid())
    async with offering(bomb(patterns), tmp_path) as client, responsive(0.5):
        with pytest.raises(InvalidAnswer, match=r"output schema of tool 'x' cannot be used: .*(at most)"):
            await client.call("x")
    assert memory(os.getpid()) - before < 50


@pytest.mark.attack("H3")
async def test_a_large_schema_without_patterns_is_compiled_beside_the_loop(tmp_path: Path) -> None:
    schema = {"type": "object", "allOf": [{"minProperties": 0} for _ in range(9000)]}
    async with offering(schema, tmp_path) as client, responsive(0.5):
        await client.call("x")


@pytest.mark.attack("H3")
def test_a_nested_form_with_large_patterns_is_refused() -> None:
    schema = {"type": "object", "properties": {"a": bomb(100)}}
    with pytest.raises(ProtocolError, match=r"requestedSchema cannot be used: .*at most"):
        read_elicitation(ElicitParams("?", requested_schema=schema), None)


@pytest.mark.attack("H3")
def test_a_form_is_compiled_when_it_is_read_and_not_when_it_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    from dovetail.schema import forms

    elicitation: Elicitation = read_elicitation(ElicitParams("?", requested_schema=bomb(3)), None)
    monkeypatch.setattr(forms, "compile_schema", None)
    assert elicitation.problems({"p0": "x"}) == []
