"""What does not exist is `NotFound` for the caller, and what makes no sense is `InvalidParams`, on every revision."""

import sys
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from dovetail import Client, InvalidParams, NotFound
from dovetail.protocol.revisions import REVISIONS
from tests.matrix import refusing_server
from tests.matrix.connections import Place, Transport, connected

CALLS: dict[str, Callable[[Client], Awaitable[Any]]] = {
    "tool": lambda client: client.call("find", title="Emma"),
    "prompt": lambda client: client.prompt("review", title="Emma"),
    "completion": lambda client: client.complete("review", "title", "E", debounce=0),
    "unknown tool": lambda client: client.call("fetch"),
    "unknown prompt": lambda client: client.prompt("preview"),
    "unknown reference": lambda client: client.complete("preview", "title", "E", debounce=0),
}
READS = {"handler": "book://emma", "unknown": "shelf://3", "middleware": "archive://all"}


@pytest.mark.parametrize("transport", ["memory", "stdio", "http"])
async def test_what_does_not_exist_is_not_found_whoever_says_so(transport: Transport, revision: str) -> None:
    place = Place(transport, refusing_server.build, (sys.executable, refusing_server.__file__))
    async with connected(place, revision) as (client, _, _):
        for name, call in CALLS.items():
            with pytest.raises(NotFound) as caught:
                await call(client)
            assert (name, caught.value.code) == (name, -32602)
        for name, uri in READS.items():
            with pytest.raises(NotFound) as caught:
                await client.read(uri)
            assert (name, caught.value.code) == (name, REVISIONS[revision].not_found_code)
            assert caught.value.data == {"uri": uri}
        with pytest.raises(NotFound, match="No book 'Emma'") as caught:
            await client.call("find", title="Emma")
        assert caught.value.data == {"shelf": 3}


@pytest.mark.parametrize("transport", ["memory", "stdio", "http"])
async def test_what_makes_no_sense_is_invalid_params(transport: Transport, revision: str) -> None:
    place = Place(transport, refusing_server.build, (sys.executable, refusing_server.__file__))
    async with connected(place, revision) as (client, _, _):
        for call in (
            client.call("lend", days=400),
            client.read("book://new"),
            client.prompt("review", title="new"),
            client.prompt("review"),
            client.complete("review", "author", "E", debounce=0),
        ):
            with pytest.raises(InvalidParams) as caught:
                await call
            assert caught.value.code == -32602


async def test_what_another_server_does_not_have_is_a_failure_of_the_handler() -> None:
    """A handler that asks another server, and does not handle the answer, has a bug: its own tool does exist."""
    inner = refusing_server.build()

    server = refusing_server.Server("outer")

    @server.resource("proxy://{title}")
    async def proxy(title: str) -> str:
        async with Client(inner) as client:
            await client.read(f"book://{title}")
        return ""

    async with Client(server) as client:
        with pytest.raises(Exception, match="Reading proxy://emma failed: NotFound: No book 'emma'") as caught:
            await client.read("proxy://emma")
        assert not isinstance(caught.value, NotFound)
