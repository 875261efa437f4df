"""Servers that listen at a socket, and a channel that a user brings along: real sockets, a real server behind them."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from dovetail import Client, Server
from dovetail.protocol.errors import ConnectionLost
from dovetail.transports.memory import memory_pair
from dovetail.transports.sockets import SocketChannel
from tests.support.http import free_port


def adding() -> Server:
    server = Server("adding")

    @server.tool
    def add(a: int, b: int) -> int:
        return a + b

    return server


def accepting(server: Server, tasks: set[asyncio.Task[None]]) -> Callable[[], SocketChannel]:
    def arrived(channel: SocketChannel) -> None:
        tasks.add(asyncio.get_running_loop().create_task(server.serve(channel)))

    return lambda: SocketChannel(connected=arrived)


@pytest.mark.parametrize("kind", ["unix:", "path", "tcp"])
@pytest.mark.parametrize("revision", [None, "2024-11-05"])
async def test_a_server_at_a_socket(kind: str, revision: str | None, tmp_path: Path):
    loop, tasks = asyncio.get_running_loop(), set[asyncio.Task[None]]()
    make = accepting(adding(), tasks)
    path = str(tmp_path / "s.sock")
    if kind == "tcp":
        listener = await loop.create_server(make, "127.0.0.1", 0)
        target = f"tcp://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    else:
        listener = await loop.create_unix_server(make, path)
        target = path if kind == "path" else f"unix:{path}"
    async with Client(target, revision=revision) as client:
        assert (await client.call("add", a=1, b=2)).data == 3
    listener.close()
    await asyncio.wait(tasks)


async def test_nobody_there(tmp_path: Path):
    for target in (
        f"unix:{tmp_path / 'none.sock'}",
        f"tcp://127.0.0.1:{free_port()}",
        f"ws://127.0.0.1:{free_port()}/x",
    ):
        with pytest.raises(ConnectionLost, match="Could not connect"):
            async with Client(target):
                pass


async def test_a_channel_of_the_users_own():
    ours, theirs = memory_pair()
    serving = asyncio.create_task(adding().serve(theirs))
    async with Client(ours) as client:
        assert (await client.call("add", a=1, b=2)).data == 3
        with pytest.raises(ConnectionLost, match="used already"):
            await client.restart()
    await serving
