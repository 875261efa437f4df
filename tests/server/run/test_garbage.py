"""Calls over HTTP are freed by reference counting: none leaves a reference cycle for the garbage collector.

A cycle that holds a request keeps everything that belongs to it, and at 10,000 requests a second the collector would be
a tenth of the work (docs/adr/0025).
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.http_process import Connection, HttpCaller, HttpProcess
from tests.support.raw import ENVELOPE, ENVELOPE_META, HANDSHAKE

SERVER = """
import gc
from dovetail import Context, Server

server = Server("tidy")

@server.tool
async def add(a: int, b: int) -> int:
    return a + b

@server.tool
async def add_with_context(a: int, b: int, ctx: Context) -> int:
    return a + b

@server.tool
async def collect() -> int:
    gc.disable()
    return gc.collect()
"""
CALLS = 100


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpProcess]:
    file: Path = tmp_path_factory.mktemp("garbage") / "tidy.py"
    file.write_text(SERVER)
    with HttpProcess(file) as running:
        yield running


class KeepAlive:
    """Calls over one connection: each connection leaves a cycle of the web server's."""

    def __init__(self, server: HttpProcess, revision: str) -> None:
        self._caller = HttpCaller(server, revision)
        self._connection: Connection = server.connect()
        self._path = server.path

    def call(self, name: str, **arguments: int) -> int:
        params: dict[str, Any] = {"name": name, "arguments": arguments}
        if self._caller.revision == ENVELOPE:
            params["_meta"] = ENVELOPE_META
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
        self._connection.request("POST", self._path, body, self._caller.headers("tools/call", name))
        return int(json.loads(self._connection.getresponse().read())["result"]["content"][0]["text"])


@pytest.mark.parametrize("revision", [ENVELOPE, HANDSHAKE])
@pytest.mark.parametrize("tool", ["add", "add_with_context"])
def test_a_call_leaves_no_reference_cycle(server: HttpProcess, tool: str, revision: str) -> None:
    client = KeepAlive(server, revision)
    for _ in range(2):
        client.call(tool, a=1, b=2)
        client.call("collect")
    for _ in range(CALLS):
        assert client.call(tool, a=1, b=2) == 3
    assert client.call("collect") < CALLS
