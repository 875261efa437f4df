"""Our server behind a real nginx: what is sent arrives at once, and a restart of the proxy in the middle loses nothing.

It buffers, as it does by default, and compresses event streams, which holds them back unless the server forbids it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from dovetail import Client
from tests.interop.peers import ENVELOPE, HANDSHAKE, PROGRAMS, python_program
from tests.support.http import Program, free_port, serving_program
from tests.support.nginx import Nginx, needs_nginx
from tests.support.raw import ENVELOPE_META

pytestmark = [pytest.mark.interop, needs_nginx]

COMPRESSING = """
    gzip on;
    gzip_types text/event-stream;
    gzip_min_length 0;
    gzip_proxied any;
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass http://127.0.0.1:{upstream};
            proxy_http_version 1.1;
            proxy_set_header Host $http_host;
        }}
    }}
"""
JSON_OR_STREAM = {"Accept": "application/json, text/event-stream"}
ALL_OF_IT = [[1, 2, "before"], [2, 2, "after"]]


@pytest.fixture
def server() -> Iterator[Program]:
    with serving_program(PROGRAMS / "dovetail_server.py", "--http") as program:
        yield program


@pytest.fixture
def proxy(server: Program, tmp_path: Path) -> Iterator[Nginx]:
    port = free_port()
    with Nginx(tmp_path, COMPRESSING.format(port=port, upstream=server.port), port) as nginx:
        yield nginx


async def release(server: Program) -> None:
    """Let the call that waits go on, past the proxy."""
    async with Client(f"{server.url}/mcp") as other:
        await other.call("release")


async def events(response: aiohttp.ClientResponse) -> AsyncIterator[tuple[str | None, dict[str, Any]]]:
    """The messages of a stream, each with the id of its event."""
    assert response.status == 200
    assert response.content_type == "text/event-stream"
    id: str | None = None
    async for line in response.content:
        name, _, value = line.decode().rstrip("\r\n").partition(": ")
        if name == "id":
            id = value
        elif name == "data" and value:
            yield id, json.loads(value)


def request(id: int, method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


async def opened(http: aiohttp.ClientSession, url: str) -> dict[str, str]:
    """A handshake by hand; the headers of all that follows."""
    asked = {"protocolVersion": HANDSHAKE[-1], "capabilities": {}, "clientInfo": {"name": "hand", "version": "1"}}
    async with http.post(url, json=request(1, "initialize", **asked), headers=JSON_OR_STREAM) as response:
        await response.read()
        session = {"Mcp-Session-Id": response.headers["Mcp-Session-Id"], "MCP-Protocol-Version": HANDSHAKE[-1]}
    told = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    async with http.post(url, json=told, headers={**JSON_OR_STREAM, **session}) as response:
        assert response.status == 202
    return {**JSON_OR_STREAM, **session}


@pytest.mark.parametrize("revision", [*HANDSHAKE, ENVELOPE])
async def test_an_event_arrives_before_the_call_ends(server: Program, proxy: Nginx, revision: str) -> None:
    """The call cannot end before its progress was heard; on the oldest revision over the two endpoints."""
    paused = asyncio.Event()
    path = "/sse" if revision == HANDSHAKE[0] else "/mcp"
    async with Client(proxy.url + path, revision=revision) as client:
        calling = asyncio.create_task(client.call("pause", progress=lambda *_: paused.set()))
        await paused.wait()
        assert not calling.done()
        await release(server)
        assert (await calling).text == "rested"


@pytest.mark.parametrize("revision", [HANDSHAKE[-1], ENVELOPE])
async def test_changes_arrive_at_once_while_nothing_else_happens(server: Program, proxy: Nginx, revision: str) -> None:
    """On the GET stream of a session, and on the stream of a subscription; neither ever ends."""
    async with (
        Client(f"{proxy.url}/mcp", revision=revision) as client,
        Client(f"{server.url}/mcp") as other,
        contextlib.aclosing(client.watch("note://static")) as changes,
    ):
        heard = asyncio.create_task(anext(changes))
        while not heard.done():
            await other.call("touch", uri="note://static")
            await asyncio.wait((heard,), timeout=0.05)
        assert (await heard).uri == "note://static"


async def test_our_client_comes_back_after_a_restart(server: Program, proxy: Nginx) -> None:
    heard: list[Any] = []
    paused = asyncio.Event()

    def progress(*told: Any) -> None:
        heard.append(list(told))
        paused.set()

    async with Client(f"{proxy.url}/mcp", revision=HANDSHAKE[-1]) as client:
        calling = asyncio.create_task(client.call("pause", progress=progress))
        await paused.wait()
        proxy.stop()
        await release(server)
        proxy.start()
        assert (await calling).text == "rested"
    assert heard == ALL_OF_IT


async def test_the_official_client_comes_back_after_a_restart(server: Program, proxy: Nginx) -> None:
    command = [*python_program("mcp", "mcp_resume.py"), f"{proxy.url}/mcp"]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    assert await process.stdout.readline() == b"paused\n"
    proxy.restart()
    await release(server)
    assert json.loads(await process.stdout.read()) == {"heard": ALL_OF_IT, "text": "rested"}
    assert await process.wait() == 0


async def test_the_last_event_id_brings_the_rest_and_only_the_rest(server: Program, proxy: Nginx) -> None:
    url = f"{proxy.url}/mcp"
    async with aiohttp.ClientSession() as http:
        headers = await opened(http, url)
        call = request(2, "tools/call", name="pause", arguments={}, _meta={"progressToken": 7})
        async with http.post(url, json=call, headers=headers) as response:
            last, message = await anext(events(response))
            assert message["params"]["message"] == "before"
            proxy.stop()
        await release(server)
        proxy.start()
        assert last is not None
        async with http.get(url, headers={**headers, "Last-Event-ID": last}) as response:
            rest = [message async for _, message in events(response)]
        assert [message.get("method", message.get("id")) for message in rest] == ["notifications/progress", 2]
        assert rest[0]["params"]["message"] == "after"
        assert rest[1]["result"]["content"][0]["text"] == "rested"


async def test_a_name_that_the_server_does_not_know_is_refused_with_the_way_to_allow_it(proxy: Nginx) -> None:
    asked = {"json": request(1, "ping"), "headers": {**JSON_OR_STREAM, "Host": "x.test"}}
    async with aiohttp.ClientSession() as http, http.post(f"{proxy.url}/mcp", **asked) as response:
        assert response.status == 421
        assert "allowed_hosts" in await response.text()


async def test_a_broken_stream_of_the_newest_revision_cancels_the_call(server: Program, proxy: Nginx) -> None:
    params = {"name": "hang", "arguments": {"name": "proxied"}, "_meta": {**ENVELOPE_META, "progressToken": 1}}
    standard = {"MCP-Protocol-Version": ENVELOPE, "Mcp-Method": "tools/call", "Mcp-Name": "hang"}
    async with aiohttp.ClientSession() as http, Client(f"{server.url}/mcp") as other:
        call = request(1, "tools/call", **params)
        async with http.post(f"{proxy.url}/mcp", json=call, headers={**JSON_OR_STREAM, **standard}) as response:
            _, message = await anext(events(response))
            assert message["method"] == "notifications/progress"
            proxy.stop()
        while "proxied" not in (await other.call("hung")).data["given_up"]:
            pass
        proxy.start()
