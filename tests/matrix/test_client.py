"""The client itself on every revision and transport: how it lives, ends, and bears with odd servers."""

import asyncio
import os
from typing import Any

import pytest

from dovetail import Client, ConnectionLost, InvalidAnswer, LocalError, NotFound, RemoteError, Timeout
from dovetail.client.listing import ListLimits
from tests.matrix.connections import STRUCTURED, Transport, era, facing, new_oracle, on, reached, setting, target


async def test_a_client_may_be_opened_in_one_task_and_closed_in_another(transport: Transport, revision: str) -> None:
    async with reached(target(transport)) as address:
        made = setting(address, revision)
        client = made.client
        await asyncio.create_task(client.open())
        called = asyncio.create_task(client.call("add", a=1, b=2))
        assert (await called).data == 3
        await asyncio.create_task(client.close())
        with pytest.raises(LocalError):
            await client.tools()
        made.verdict()


async def test_closing_ends_the_calls_in_flight(transport: Transport, revision: str) -> None:
    async with reached(target(transport)) as address:
        made = setting(address, revision)
        client = made.client
        await client.open()
        call = asyncio.create_task(client.call("hold", key="closing"))
        await client.call("happened", event="started closing")
        await client.close()
        with pytest.raises(ConnectionLost):
            await call
        made.verdict()


async def test_the_blocking_client_does_the_same_without_async(transport: Transport, revision: str) -> None:
    async with reached(target(transport)) as (where, edge, *_):
        await asyncio.to_thread(use_without_async, where, revision)
        if edge is not None:
            edge.verdict()


def use_without_async(where: Any, revision: str) -> None:
    oracle = new_oracle()
    with Client.blocking(where, revision=revision, trace=oracle) as client:
        assert client.revision == revision
        assert client.server is not None and client.server.name == "everything"
        assert client.instructions == "Use what you need."
        assert client.capabilities.tools is not None
        assert "add" in [tool.name for tool in client.tools()]
        assert client.resources() and client.resource_templates() and client.prompts()
        assert client.call("add", a=1, b=2).data == 3
        assert client.read("text://hello").contents
        assert client.prompt("review", code="x").messages
        client.ping()
        heard: list[float] = []
        client.call("count", steps=2, progress=lambda done, *_: heard.append(done))
        assert heard == [1, 2]
        with pytest.raises(RemoteError):
            client.read("no://where")
    oracle.verdict()


@on(*STRUCTURED)
async def test_a_result_that_breaks_its_output_schema_is_invalid(transport: Transport, revision: str) -> None:
    async with facing("liar", transport, revision) as (client, _):
        with pytest.raises(InvalidAnswer, match="output schema"):
            await client.call("n")


@on("2026-07-28")
async def test_a_result_type_that_nobody_announced_is_invalid(transport: Transport, revision: str) -> None:
    async with facing("mystery", transport, revision) as (client, _):
        with pytest.raises(InvalidAnswer, match="mystery"):
            await client.call("anything")
        with pytest.raises(InvalidAnswer, match="mystery"):
            await client.request("notes/review")


async def test_a_list_that_leads_in_a_circle_is_invalid(transport: Transport, revision: str) -> None:
    async with facing("circular", transport, revision) as (client, _):
        with pytest.raises(InvalidAnswer, match="circle"):
            await client.tools()


async def test_a_list_without_an_end_is_invalid(transport: Transport, revision: str) -> None:
    async with facing("endless", transport, revision) as (client, _):
        client._list_limits = ListLimits(max_pages=20)  # pyright: ignore[reportPrivateUsage]
        with pytest.raises(InvalidAnswer, match="more than 20 pages"):
            await client.tools()


async def test_a_server_that_dies_fails_the_call_at_once(transport: Transport, revision: str) -> None:
    async with facing("dies", transport, revision, timeout=None) as (client, _):
        with pytest.raises(ConnectionLost):
            await client.call("anything")
        with pytest.raises(ConnectionLost):
            await client.tools()


async def test_a_server_that_never_answers_ends_the_opening_in_time(transport: Transport, revision: str) -> None:
    with pytest.raises(Timeout):
        async with facing("never_answers", transport, revision, timeout=0.3):
            pass


async def test_a_program_that_is_not_there_is_one_typed_error(revision: str) -> None:
    with pytest.raises(ConnectionLost, match="no-such-program"):
        async with Client([os.path.join(os.sep, "no-such-program")], revision=revision):
            pass


async def test_noise_among_the_messages_does_no_harm(transport: Transport, revision: str) -> None:
    """A ping is answered on the handshake era; on the envelope era a client answers nothing at all."""
    async with facing("noisy", transport, revision) as (client, oracle):
        assert await client.tools() == []
    answers = [message.body for message in oracle.sent_by("client") if message.method is None]
    assert [answer.get("id") for answer in answers] == (["q"] if era(revision) == "handshake" else [])


async def test_not_found_is_understood_in_its_old_form_too(transport: Transport, revision: str) -> None:
    """2026-07-28 resources, "Error Handling": clients should still accept −32002."""
    async with facing("old_code", transport, revision) as (client, _):
        with pytest.raises(NotFound):
            await client.read("no://where")
