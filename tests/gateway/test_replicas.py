"""Several gateways over one store, with clients whose requests reach any of them: real HTTP, one store object each."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator

import pytest

from dovetail import Client, Context, Gateway, OutcomeUnknown, RemoteError, Server
from tests.support.asking import Rounds
from tests.support.http import serving
from tests.support.raw_http import Answer, Session, Site
from tests.support.replica_clients import OpenStore, replicas

BACKS = ["2025-11-25", "2026-07-28"]
NUMBER = 40


class Shop:
    """A server of one revision behind several gateways; it counts how often its tool was begun."""

    def __init__(self, revision: str) -> None:
        self.server = Server("shop", revisions=[revision])
        self.begun: list[int] = []

        @self.server.tool
        async def book(number: int, ctx: Context) -> str:
            days = await ctx.elicit("How long?", int)
            sure = await ctx.elicit("Sure?", bool)
            await ctx.step("pay", self.begun.append, number)
            return f"{number}: {days.data} {sure.data}"

        @self.server.tool
        async def plain(number: int) -> int:
            self.begun.append(number)
            return number

    def gateway(self) -> Gateway:
        return Gateway({"shop": self.server})


@pytest.mark.parametrize("back", BACKS)
async def test_questions_are_answered_at_any_gateway_and_each_call_runs_once(back: str, store: OpenStore) -> None:
    shop = Shop(back)
    async with replicas(shop.gateway, store) as clients:

        async def call(number: int) -> str:
            rounds = await Rounds.call(clients[number % 3], "shop__book", number=number)
            await rounds.answer(number, clients[(number + 1) % 3])
            await rounds.answer(True, clients[(number + 2) % 3])
            return rounds.text

        results = await asyncio.gather(*(call(number) for number in range(NUMBER)))
    assert results == [f"{number}: {number} True" for number in range(NUMBER)]
    assert sorted(shop.begun) == list(range(NUMBER))


async def test_a_question_of_a_newer_server_outlives_the_gateway(store: OpenStore) -> None:
    shop = Shop("2026-07-28")
    async with replicas(shop.gateway, store, 1) as [client]:
        rounds = await Rounds.call(client, "shop__book", number=1)
    async with replicas(shop.gateway, store, 1) as [client]:
        await rounds.answer(2, client)
        await rounds.answer(True, client)
        assert rounds.text == "1: 2 True"
    assert shop.begun == [1]


async def test_a_call_whose_gateway_has_ended_is_not_sent_again(store: OpenStore) -> None:
    shop = Shop("2025-11-25")
    async with replicas(shop.gateway, store, 1) as [client]:
        rounds = await Rounds.call(client, "shop__book", number=1)
    async with replicas(shop.gateway, store, 1) as [client]:
        with pytest.raises(OutcomeUnknown, match="is not sent again"):
            await rounds.answer(2, client)
    assert shop.begun == []


async def test_a_state_is_accepted_once_by_all_gateways(store: OpenStore) -> None:
    shop = Shop("2026-07-28")
    async with replicas(shop.gateway, store) as clients:
        rounds = await Rounds.call(clients[0], "shop__book", number=1)
        retry = {"requestState": rounds.state, "inputResponses": rounds.accepted(2)}
        outcomes = await asyncio.gather(
            *(client.request(rounds.method, {**rounds.params, **retry}) for client in clients * 3),
            return_exceptions=True,
        )
        assert sum(isinstance(outcome, RemoteError) for outcome in outcomes) == len(outcomes) - 1


async def test_clients_of_the_handshake_era_call_through_any_gateway(store: OpenStore) -> None:
    shop = Shop("2026-07-28")
    async with replicas(shop.gateway, store) as clients:
        results = await asyncio.gather(*(_call(clients[number % 3], number) for number in range(12)))
    assert results == list(range(12))


async def _call(client: Client, number: int) -> int:
    return (await client.call("shop__plain", number=number)).data


@pytest.mark.parametrize("back", BACKS)
async def test_a_session_hears_of_updates_wherever_its_stream_is(back: str, store: OpenStore) -> None:
    """It has subscribed at one gateway, opens its stream at another, and goes on when the first has ended."""
    server = Server("files", revisions=[back])

    @server.resource("file:///a")
    def a() -> str:
        return "a"

    async def heard(stream: Answer) -> None:
        async with asyncio.timeout(10):
            updated = asyncio.ensure_future(stream.message())
            while not updated.done():
                server.notify_resource_updated("file:///a")
                await asyncio.wait([updated], timeout=0.05)
            assert updated.result()["params"] == {"uri": "file:///a"}

    async with contextlib.AsyncExitStack() as stack, contextlib.AsyncExitStack() as first:
        here, there = [await outer.enter_async_context(_gateway(server, store)) for outer in (first, stack)]
        session = await here.session("2025-11-25")
        await (await session.ask("resources/subscribe", uri="file:///a")).json()
        stream = await Session(there, session.revision, session.id).get()
        await heard(stream)
        await first.aclose()
        await heard(stream)


@contextlib.asynccontextmanager
async def _gateway(server: Server, store: OpenStore) -> AsyncGenerator[Site]:
    opened, gateway = store(), Gateway({"files": server})
    async with serving(gateway.asgi(store=opened)) as url, Site(url) as site:
        yield site
    await gateway.close()
    await opened.close()
