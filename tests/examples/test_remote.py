"""examples/remote.py: over HTTP everybody has their own notes, on every revision, and strangers have none."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest

from dovetail import Client, ConnectionLost, RemoteError, ToolFailed
from examples import remote
from tests.support.http import serving


@pytest.fixture(autouse=True)
def notebooks() -> Iterator[None]:
    remote.notebooks.clear()
    yield
    remote.notebooks.clear()


async def test_everybody_has_their_own_notes(revision: str) -> None:
    place = "/sse" if revision == "2024-11-05" else "/mcp"
    async with (
        serving(remote.server.asgi()) as url,
        Client(url + place, revision=revision, auth="ann-example") as ann,
        Client(url + place, revision=revision, auth="bob-example") as bob,
    ):
        assert (await ann.call("note", text="tea")).data == 1
        assert (await bob.call("note", text="coffee")).data == 1
        assert (await ann.call("notes")).data == ["tea"]
        assert (await bob.call("notes")).data == ["coffee"]


async def test_what_is_for_ann_is_not_there_for_bob(revision: str) -> None:
    place = "/sse" if revision == "2024-11-05" else "/mcp"
    async with (
        serving(remote.server.asgi()) as url,
        Client(url + place, revision=revision, auth="ann-example") as ann,
        Client(url + place, revision=revision, auth="bob-example") as bob,
    ):
        await bob.call("note", text="coffee")
        assert (await ann.call("how_many")).data == {"bob": 1}
        assert [tool.name for tool in await bob.tools()] == ["note", "notes"]
        with pytest.raises(RemoteError):
            await bob.call("how_many")


@pytest.mark.parametrize("auth", [False, "eve-example"])
async def test_strangers_do_not_get_in(auth: Literal[False] | str) -> None:
    async with serving(remote.server.asgi()) as url:
        with pytest.raises(ConnectionLost, match="401"):
            await Client(f"{url}/mcp", auth=auth).open()


async def test_a_notebook_fills_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "MOST_NOTES", 1)
    async with serving(remote.server.asgi()) as url, Client(f"{url}/mcp", auth="ann-example") as ann:
        await ann.call("note", text="one")
        with pytest.raises(ToolFailed, match="full"):
            await ann.call("note", text="two")


async def test_over_stdio_nobody_is_known() -> None:
    async with Client(remote.server) as somebody:
        with pytest.raises(ToolFailed, match="over HTTP"):
            await somebody.call("notes")


def test_it_serves_and_looks_by_itself() -> None:
    done = subprocess.run(
        [sys.executable, str(Path(remote.__file__))], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.splitlines() == [
        "ann-example: note, notes, how_many",
        "  ['the server speaks 2026-07-28']",
        "bob-example: note, notes",
        "  ['the server speaks 2026-07-28']",
    ]
