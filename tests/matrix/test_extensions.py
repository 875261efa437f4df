"""Extensions on every revision and transport: requests, notifications and result types of both sides."""

import pytest

from dovetail import Client, RemoteError
from tests.matrix.connections import ClientNotes, Transport, connected, on_envelope, on_handshake, target
from tests.matrix.everything import NOTES
from tests.support.oracle import Oracle


async def test_a_request_of_an_extension_is_answered(transport: Transport, revision: str) -> None:
    async with connected(target(transport), revision) as (client, _, _notes):
        assert (await client.request("notes/add", {"text": "milk"}))["count"] == 1
        assert (await client.request("notes/add", {"text": "bread"}))["count"] == 2


async def test_a_notification_of_an_extension_reaches_the_server(client: Client) -> None:
    client.notify("notifications/notes/touched", {"text": "milk"})
    assert (await client.call("happened", event="touched milk")).data == "touched milk"


async def test_a_notification_of_an_extension_reaches_the_client(transport: Transport, revision: str) -> None:
    async with connected(target(transport), revision) as (client, _, notes):
        await client.request("notes/add", {"text": "milk"})
        assert notes.heard == [{"text": "milk"}]


async def test_a_result_type_of_an_extension_is_understood(client: Client, revision: str) -> None:
    await client.request("notes/add", {"text": "milk"})
    assert await client.request("notes/review") == {"resultType": "note", "text": "milk"}


@on_handshake
async def test_a_server_may_ask_by_an_extension(client: Client, oracle: Oracle, notes: ClientNotes) -> None:
    notes.events["all there"].set()
    assert (await client.call("ask", method="notes/approve")).data == [{"approved": 0}]


@on_envelope
async def test_an_extension_that_the_client_lacks_is_named(transport: Transport, revision: str) -> None:
    async with connected(target(transport), revision, extensions=[]) as (client, _, _notes):
        with pytest.raises(RemoteError) as error:
            await client.request("notes/add", {"text": "milk"})
        assert error.value.code == -32021
        assert error.value.data == {"requiredCapabilities": {"extensions": {NOTES: {}}}}


@on_handshake
async def test_an_extension_that_the_client_lacks_is_not_there_for_it(transport: Transport, revision: str) -> None:
    async with connected(target(transport), revision, extensions=[]) as (client, _, _notes):
        with pytest.raises(RemoteError, match=NOTES) as error:
            await client.request("notes/add", {"text": "milk"})
        assert error.value.code == -32601


@on_handshake
async def test_a_question_by_an_extension_that_the_client_lacks_is_not_found(
    transport: Transport, revision: str
) -> None:
    async with connected(target(transport), revision, extensions=[]) as (client, _, _notes):
        result = await client.call("ask", method="notes/approve", check=False)
        assert result.is_error
        assert "-32601" in result.text
