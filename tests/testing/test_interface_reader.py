"""The interface of a server, as async and blocking clients read it."""

import pytest

from dovetail import Client, Server
from dovetail.protocol.revisions import REVISIONS
from dovetail.testing import interface
from tests.testing.booking import booking


@pytest.mark.parametrize("revision", REVISIONS)
async def test_everything_offered_is_there_and_the_version_is_not(revision: str) -> None:
    async with Client(booking(), revision=revision) as client:
        found = await interface(client)
    assert found["server"] == {"name": "booking"}
    assert found["instructions"] == "Book a hotel."
    assert set(found["tools"]) == {"add", "book", "both", "suggest", "sign_in", "where", "count", "rooms"}
    assert found["tools"]["add"]["inputSchema"]["required"] == ["a", "b"]
    assert "name" not in found["tools"]["add"]
    assert set(found["resource_templates"]) == {"hotel://{city}"}
    assert found["resources"] == {}
    assert set(found["prompts"]) == {"pack"}


def test_a_blocking_client_reads_the_same() -> None:
    async def read() -> object:
        async with Client(booking()) as client:
            return await interface(client)

    import asyncio

    with Client.blocking(booking()) as client:
        assert interface(client) == asyncio.run(read())


async def test_lists_that_a_server_does_not_have_are_not_asked_for() -> None:
    async with Client(Server("empty")) as client:
        assert await interface(client) == {"capabilities": {}, "server": {"name": "empty"}}
