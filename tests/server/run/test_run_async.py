"""`await server.run_async(…)`: serving on the loop of the program, on every transport, until cancelled."""

import asyncio
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dovetail import Client, LocalError, Server
from tests.support.http import free_port

PATIENCE = 30.0

PROGRAM = """
import asyncio
from dovetail import Server
server = Server("inn")

@server.tool
async def add(a: int, b: int) -> int:
    return a + b

async def main() -> None:
    before = {"open": True}
    await server.run_async()
    print("afterwards", before, file=__import__("sys").stderr, flush=True)

asyncio.run(main())
"""


def inn() -> Server:
    server = Server("inn")

    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    @server.tool
    async def wait(seconds: float) -> str:
        await asyncio.sleep(seconds)
        return "done"

    return server


@asynccontextmanager
async def running(server: Server, *arguments: Any, **options: Any) -> AsyncIterator[asyncio.Task[None]]:
    """The server in a task of this loop; cancelled at the end."""
    task = asyncio.create_task(server.run_async(*arguments, **options))
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task], timeout=PATIENCE)
        assert task.cancelled()


async def connected(target: str) -> Client:
    """A client, once the server listens."""
    async with asyncio.timeout(PATIENCE):
        while True:
            client = Client(target)
            try:
                return await client.__aenter__()
            except Exception:
                await asyncio.sleep(0.02)


@pytest.mark.parametrize("name", ["http", "streamable-http", "streamable_http", "sse"])
async def test_http_is_served_beside_other_tasks_by_any_of_its_names(name: str) -> None:
    port = free_port()
    path = "/sse" if name == "sse" else "/mcp"
    async with running(inn(), name, port=port):
        client = await connected(f"http://127.0.0.1:{port}{path}")
        assert (await client.call("add", a=1, b=2)).data == 3
        await client.__aexit__(None, None, None)
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0


async def test_sockets_are_served_beside_other_tasks(tmp_path: Path) -> None:
    path = str(tmp_path / "inn.sock")
    async with running(inn(), "unix", path=path):
        client = await connected(f"unix:{path}")
        assert (await client.call("add", a=1, b=2)).data == 3
        await client.__aexit__(None, None, None)
    assert not Path(path).exists()


async def test_a_cancellation_lets_running_calls_finish() -> None:
    port = free_port()
    async with running(inn(), "http", port=port) as task:
        client = await connected(f"http://127.0.0.1:{port}/mcp")
        call = asyncio.create_task(client.call("wait", seconds=0.5))
        await asyncio.sleep(0.2)
        task.cancel()
        assert (await call).data == "done"
        await client.__aexit__(None, None, None)


async def test_the_program_goes_on_after_the_client_of_stdio_has_gone() -> None:
    async with Client([sys.executable, "-c", PROGRAM]) as client:
        assert (await client.call("add", a=1, b=2)).data == 3


async def test_options_that_do_not_fit_are_refused() -> None:
    with pytest.raises(LocalError, match="run_async serves in this process"):
        await inn().run_async("http", workers=2)
    with pytest.raises(LocalError, match="There is no transport 'pigeon'"):
        await inn().run_async("pigeon")  # pyright: ignore[reportCallIssue, reportArgumentType]
    with pytest.raises(LocalError, match="with the endpoints of HTTP\\+SSE"):
        await inn().run_async("sse", legacy_sse=False)
    with pytest.raises(LocalError, match="over stdio has no option port"):
        await inn().run_async(port=1)  # pyright: ignore[reportCallIssue]
