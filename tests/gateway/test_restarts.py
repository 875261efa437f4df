"""Servers that end and come back behind a gateway, over stdio and over HTTP: nothing is lost silently."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import pytest

from dovetail import Client, Gateway, OutcomeUnknown, RemoteError
from dovetail.gateway import ServerSettings
from tests.support.http import free_port
from tests.support.http_process import HttpProcess

CHANGING = Path(__file__).parent / "programs" / "changing_server.py"
FRONTS = ["2025-11-25", "2026-07-28"]
BACKS = ["2025-06-18", "2026-07-28"]
PAIRS = [(front, back) for front in FRONTS for back in BACKS]


async def until(condition: Callable[[], bool], seconds: float = 20) -> None:
    """Wait until something is true."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)


async def touch(client: Client) -> int:
    """Update the resource; a server that has just been lost is connected to again after a short while."""
    async with asyncio.timeout(20):
        while True:
            try:
                return (await client.call("s__touch")).data
            except RemoteError:
                await asyncio.sleep(0.05)


async def tools(client: Client) -> set[str]:
    return {tool["name"].removeprefix("s__") for tool in (await client.request("tools/list"))["tools"]}


async def missing(client: Client) -> dict[str, Any]:
    """The servers that a list says are missing."""
    return (await client.request("tools/list")).get("_meta", {}).get("dovetail/servers", {})


@contextlib.asynccontextmanager
async def watching(client: Client, *uris: str, **kinds: bool) -> AsyncGenerator[list[str]]:
    """The changes that a client is told of; the subscription is open when the block begins."""
    told: list[str] = []

    async def watch() -> None:
        nonlocal told
        async for change in client.watch(*uris, **kinds):
            told += [change.uri or change.kind]

    task = asyncio.create_task(watch())
    try:
        yield told
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class StdioServer:
    """The server as the gateway starts it itself."""

    def __init__(self, revision: str, folder: Path) -> None:
        self.file = folder / "tools"
        self.file.write_text("first")
        self.target: Any = [sys.executable, str(CHANGING), revision, str(self.file)]

    async def restart(self, client: Client, tools: str = "first") -> None:
        """Kill the process that a client uses; the next request starts another one, with these tools."""
        self.file.write_text(tools)
        os.kill(await touch(client), signal.SIGKILL)


class WebServer:
    """The server at a port."""

    def __init__(self, revision: str, folder: Path) -> None:
        self._revision, self._port = revision, free_port()
        self._file = folder / "tools"
        self._file.write_text("first")
        self.target: Any = f"http://127.0.0.1:{self._port}/mcp"
        self.process: HttpProcess | None = None

    async def start(self, tools: str = "first") -> None:
        self._file.write_text(tools)
        command = [sys.executable, str(CHANGING), self._revision, str(self._file), str(self._port)]
        self.process = await asyncio.to_thread(HttpProcess, CHANGING, command=command, port=self._port)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process = None


@pytest.mark.parametrize(("front", "back"), PAIRS)
async def test_subscriptions_go_on_when_a_server_restarts(front: str, back: str, tmp_path: Path) -> None:
    server = StdioServer(back, tmp_path)
    gateway = Gateway({"s": server.target})
    async with Client(gateway, revision=front, timeout=20) as client, watching(client, "thing://one") as told:
        while not told:
            await touch(client)
        await server.restart(client)
        before = len(told)
        await until(lambda: len(told) > before)  # it may have changed meanwhile
        before = len(told)
        while len(told) == before:
            await touch(client)
    await gateway.close()


@pytest.mark.parametrize(("front", "back"), PAIRS)
async def test_clients_hear_of_other_tools_after_a_restart(front: str, back: str, tmp_path: Path) -> None:
    server = StdioServer(back, tmp_path)
    gateway = Gateway({"s": server.target})
    async with Client(gateway, revision=front, timeout=20) as client, watching(client, tools=True) as told:
        assert await tools(client) == {"touch", "die", "first"}
        await server.restart(client, "second")
        await until(lambda: not gateway.status["servers"]["s"]["connections"])
        await touch(client)
        await until(lambda: "tools" in told)
        assert await tools(client) == {"touch", "die", "second"}
        assert (await client.call("s__second")).text == ""
    await gateway.close()


@pytest.mark.parametrize(("front", "back"), PAIRS)
async def test_a_server_over_http_that_ends_is_said_to_be_missing(front: str, back: str, tmp_path: Path) -> None:
    """Each request of HTTP has a connection of its own, so that nothing is lost but the requests."""
    server = WebServer(back, tmp_path)
    await server.start()
    gateway = Gateway({"s": server.target}, settings={"s": ServerSettings(grace_seconds=1)})
    try:
        async with Client(gateway, revision=front, timeout=20) as client, watching(client, tools=True) as told:
            assert await tools(client) == {"touch", "die", "first"}
            server.kill()
            with pytest.raises(RemoteError, match=r"not available|not known"):
                await client.call("s__touch")
            assert (await missing(client))["s"]["status"] == "unavailable; listed as before"
            assert gateway.status["servers"]["s"]["state"] == "failing"
            await until(lambda: "tools" in told)  # the grace is over
            assert await tools(client) == set()
            assert (await missing(client))["s"]["status"] == "unavailable"
            told.clear()
            await server.start("second")
            async with asyncio.timeout(20):
                while True:
                    await until(lambda: "tools" in told)  # nobody has asked for it
                    told.clear()
                    if await tools(client) == {"touch", "die", "second"}:
                        break
            assert await missing(client) == {}
            assert gateway.status["servers"]["s"]["state"] == "ready"
    finally:
        server.kill()
        await gateway.close()


@pytest.mark.parametrize("front", FRONTS)
async def test_a_server_that_was_never_reached_announces_itself(front: str, tmp_path: Path) -> None:
    server = WebServer("2025-06-18", tmp_path)
    gateway = Gateway({"s": server.target})
    try:
        async with Client(gateway, revision=front, timeout=20) as client, watching(client, tools=True) as told:
            assert await tools(client) == set()
            await server.start()
            await until(lambda: "tools" in told)
            assert await tools(client) == {"touch", "die", "first"}
    finally:
        server.kill()
        await gateway.close()


async def test_a_call_that_ends_its_process_does_not_keep_others_from_the_server(tmp_path: Path) -> None:
    server = StdioServer("2025-06-18", tmp_path)
    gateway = Gateway({"s": server.target})
    for _ in range(3):
        async with Client(gateway, revision="2025-11-25", timeout=20) as attacker:
            with pytest.raises(OutcomeUnknown):
                await attacker.call("s__die")
        async with Client(gateway, revision="2025-11-25", timeout=20) as other:
            assert (await other.call("s__touch")).data
    await gateway.close()


async def test_subscriptions_go_on_when_the_settings_of_a_server_change(tmp_path: Path) -> None:
    server = StdioServer("2025-06-18", tmp_path)
    gateway = Gateway({"s": server.target})
    async with Client(gateway, revision="2025-11-25", timeout=20) as client, watching(client, "thing://one") as told:
        while not told:
            await touch(client)
        await gateway.update({"s": server.target}, settings={"s": ServerSettings(timeout=30)})
        before = len(told)
        await until(lambda: len(told) > before)
        before = len(told)
        while len(told) == before:
            await touch(client)
    await gateway.close()
