"""A stream of the handshake era that breaks is taken up again where it broke: nothing is lost, nothing comes twice.

Their clients with our server, and our client with theirs, through a relay that cuts every connection while
the call waits.
"""

import asyncio
import json
from typing import Any

import aiohttp
import pytest

from dovetail import Client
from tests.interop.peers import HANDSHAKE, PROGRAMS, node_program, python_program
from tests.support.cuttable_relay import Relay
from tests.support.http import serving_command, serving_program

pytestmark = pytest.mark.interop

ALL_OF_IT = [[1, 2, "before"], [2, 2, "after"]]
CLIENTS = {
    "python-2": lambda: python_program("mcp", "mcp_resume.py"),
    "python-1": lambda: python_program("mcp1", "mcp_resume.py"),
    "typescript-2": lambda: [*node_program("typescript_resume.mjs"), "2"],
    "typescript-1": lambda: [*node_program("typescript_resume.mjs"), "1"],
}
SERVERS = {
    "python-2": lambda: [*python_program("mcp", "mcp_server.py"), "http"],
    "python-1": lambda: [*python_program("mcp1", "mcp_server.py"), "http"],
    "typescript": lambda: [*node_program("typescript_server.mjs"), "http"],
}


@pytest.mark.parametrize("kind", CLIENTS)
async def test_their_client_comes_back_to_our_stream(kind: str) -> None:
    with serving_program(PROGRAMS / "dovetail_server.py", "--http") as server:
        async with Relay(server.port) as relay:
            process = await asyncio.create_subprocess_exec(
                *CLIENTS[kind](), f"{relay.url}/mcp", stdout=asyncio.subprocess.PIPE
            )
            assert process.stdout is not None
            assert await process.stdout.readline() == b"paused\n"
            came = relay.connections
            relay.cut()
            async with Client(f"{server.url}/mcp") as other:
                await other.call("release")
            got = json.loads(await process.stdout.read())
            assert await process.wait() == 0
            assert relay.connections > came
    assert got == {"heard": ALL_OF_IT, "text": "rested"}


@pytest.mark.parametrize("kind", SERVERS)
async def test_our_client_comes_back_to_their_stream(kind: str) -> None:
    with serving_command(SERVERS[kind]()) as server:
        async with Relay(server.port) as relay:
            heard: list[Any] = []
            paused = asyncio.Event()

            def progress(*told: Any) -> None:
                heard.append(list(told))
                paused.set()

            async with Client(f"{relay.url}/mcp", revision=HANDSHAKE[-1]) as client:
                calling = asyncio.create_task(client.call("pause", progress=progress))
                await paused.wait()
                came = relay.connections
                relay.cut()
                async with aiohttp.ClientSession() as http, http.post(f"{server.url}/release") as response:
                    assert response.status == 200
                result = await calling
            assert relay.connections > came
    assert (heard, result.text) == (ALL_OF_IT, "rested")
