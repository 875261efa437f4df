"""The longest message that a client accepts: one limit and one option for every transport."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from dovetail import Client, Context, Server
from dovetail.protocol.errors import DovetailError
from dovetail.server import SocketServer, listen_tcp, listen_unix
from dovetail.transports.base import MAX_LINE, MAX_RECEIVED
from tests.support.http import serving
from tests.support.raw import PATIENCE

PROGRAM = """
from dovetail import Server

server = Server("large")

@server.tool
def repeat(size: int):
    return "x" * size

server.run()
"""

LARGE = 30_000_000
TRANSPORTS = ("stdio", "http", "events", "legacy_sse", "websocket", "unix", "tcp")


def large_server() -> Server:
    server = Server("large")

    @server.tool
    def repeat(size: int):  # no hint: the text is sent once
        return "x" * size

    @server.tool
    async def repeat_as_event(size: int, ctx: Context):
        await ctx.progress(1)
        return "x" * size

    return server


@contextlib.asynccontextmanager
async def listening(server: Server, path: Path | None) -> AsyncIterator[SocketServer]:
    started: asyncio.Future[SocketServer] = asyncio.get_running_loop().create_future()
    work = (
        listen_tcp(server, port=0, started=started.set_result)
        if path is None
        else listen_unix(server, path, started=started.set_result)
    )
    task = asyncio.create_task(work)
    try:
        yield await asyncio.wait_for(started, PATIENCE)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@contextlib.asynccontextmanager
async def connected(transport: str, folder: Path, **options: Any) -> AsyncIterator[Client]:
    """A client of the server over a transport."""
    async with contextlib.AsyncExitStack() as stack:
        if transport == "stdio":
            (folder / "large.py").write_text(PROGRAM)
            target: Any = [sys.executable, str(folder / "large.py")]
        elif transport == "unix":
            await stack.enter_async_context(listening(large_server(), folder / "s"))
            target = f"unix:{folder / 's'}"
        elif transport == "tcp":
            [address] = (await stack.enter_async_context(listening(large_server(), None))).addresses
            target = f"tcp://{address}"
        else:
            url = await stack.enter_async_context(serving(large_server().asgi()))
            path = {"legacy_sse": "/sse", "websocket": "/mcp/ws"}.get(transport, "/mcp")
            target = ("ws" + url[4:] if transport == "websocket" else url) + path
        yield await stack.enter_async_context(Client(target, **options))


async def call(client: Client, transport: str, size: int) -> int:
    tool = "repeat_as_event" if transport == "events" else "repeat"
    ignore = (lambda *_: None) if transport == "events" else None
    return len((await client.call(tool, size=size, progress=ignore)).text)


def test_a_client_accepts_more_than_a_server() -> None:
    assert MAX_RECEIVED == 64 * 1024 * 1024
    assert MAX_LINE == 16 * 1024 * 1024


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_result_of_30_mb_arrives_by_default(transport: str, tmp_path: Path) -> None:
    async with connected(transport, tmp_path) as client:
        assert await call(client, transport, LARGE) == LARGE


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_the_error_for_a_longer_message_has_the_limit_and_the_option(transport: str, tmp_path: Path) -> None:
    async with connected(transport, tmp_path, max_message_bytes=100_000) as client:
        assert await call(client, transport, 50_000) == 50_000
        with pytest.raises(DovetailError, match=r"100000.*\(max_message_bytes\)"):
            await call(client, transport, 200_000)
        if transport not in ("legacy_sse", "websocket"):  # there it ends the connection
            assert await call(client, transport, 50_000) == 50_000
