"""A server that crashed, started anew on the caller's wish."""

import asyncio
import sys
from pathlib import Path

import pytest

from dovetail import Client, Server
from dovetail.client import retry_policy as restarts_module
from dovetail.client.retry_policy import RestartPolicy
from dovetail.protocol.errors import ConnectionLost, LocalError
from dovetail.protocol.revisions import REVISIONS

EVERY = pytest.mark.parametrize("name", REVISIONS)

PROGRAM = """
import os
from dovetail import Server, Context

server = Server("fragile")

@server.tool
async def pid() -> int:
    return os.getpid()

@server.tool
async def die() -> None:
    os._exit(1)

@server.tool
async def speak(ctx: Context) -> None:
    await ctx.log.info("here")

server.run()
"""


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    path = tmp_path / "fragile.py"
    path.write_text(PROGRAM)
    return [sys.executable, str(path)]


class TestByItself:
    @EVERY
    async def test_the_next_call_starts_it_anew(self, name: str, command: list[str]):
        async with Client(command, revision=name, restart=True) as client:
            first = (await client.call("pid")).data
            with pytest.raises(ConnectionLost):
                await client.call("die")
            second = (await client.call("pid")).data
            assert first != second
            assert (client.revision, client.server is not None) == (name, True)

    async def test_only_one_of_many_starts_it(self, command: list[str]):
        async with Client(command, restart=True) as client:
            with pytest.raises(ConnectionLost):
                await client.call("die")
            results = await asyncio.gather(*(client.call("pid") for _ in range(5)))
            assert len({result.data for result in results}) == 1

    async def test_logs_are_asked_for_anew(self, command: list[str]):
        heard: list[str] = []
        options = {"revision": "2025-11-25", "on_log": lambda level, data, logger: heard.append(data["message"])}
        async with Client(command, restart=True, **options) as client:
            with pytest.raises(ConnectionLost):
                await client.call("die")
            await client.call("speak")
            await client.ping()
        assert heard == ["here"]

    async def test_not_over_and_over(self, command: list[str], monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(restarts_module, "RESTART_BURST", 1)
        async with Client(command, restart=True) as client:
            for _ in range(2):
                with pytest.raises(ConnectionLost):
                    await client.call("die")
            with pytest.raises(ConnectionLost, match="it was restarted too often"):
                await client.call("pid")

    async def test_who_did_not_wish_it_gets_none(self, command: list[str]):
        async with Client(command) as client:
            with pytest.raises(ConnectionLost):
                await client.call("die")
            with pytest.raises(ConnectionLost):
                await client.call("pid")

    async def test_a_server_that_cannot_be_started_again_is_tried_again_later(self, command: list[str]):
        program = Path(command[1])
        async with Client(command, restart=True) as client:
            with pytest.raises(ConnectionLost):
                await client.call("die")
            good = program.read_text()
            program.write_text("raise SystemExit(3)")
            with pytest.raises(ConnectionLost):
                await client.call("pid")
            program.write_text(good)
            assert isinstance((await client.call("pid")).data, int)


class TestByHand:
    @EVERY
    async def test_a_crashed_server(self, name: str, command: list[str]):
        async with Client(command, revision=name) as client:
            with pytest.raises(ConnectionLost):
                await client.call("die")
            await client.restart()
            assert isinstance((await client.call("pid")).data, int)

    async def test_one_that_is_well(self, command: list[str]):
        async with Client(command) as client:
            first = (await client.call("pid")).data
            await client.restart()
            assert (await client.call("pid")).data != first

    async def test_in_memory_it_is_a_new_connection(self):
        server = Server("s")
        server.tool(lambda: 1, name="one")
        async with Client(server) as client:
            await client.restart()
            assert (await client.call("one")).text == "1"

    async def test_not_when_it_is_not_open(self):
        client = Client(Server("s"))
        with pytest.raises(LocalError, match="not open"):
            await client.restart()
        async with client:
            pass
        with pytest.raises(LocalError, match="not open"):
            await client.restart()


def test_counting(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(restarts_module, "RESTART_BURST", 2)
    restarts = RestartPolicy()
    restarts.count("gone")
    restarts.count("gone")
    with pytest.raises(ConnectionLost, match="gone; it was restarted too often"):
        restarts.count("gone")
