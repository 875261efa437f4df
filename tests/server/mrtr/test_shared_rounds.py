"""Calls that ask, served by several replicas over one store: real HTTP, one server and one store object each."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from dovetail import Context, RemoteError, Server
from dovetail.protocol.errors import INTERNAL_ERROR, INVALID_PARAMS, LocalError
from dovetail.protocol.key_periods import sealing_period
from dovetail.storage import MemoryStore
from dovetail.storage.contract import StoreUnavailable
from tests.support.asking import Rounds, asked
from tests.support.http import serving
from tests.support.raw_http import Site, modern, modern_headers, modern_meta
from tests.support.replica_clients import OpenStore, replicas

KEY = b"a key that all replicas were given"


class Shop:
    """Servers with one tool, which takes a step, asks, takes another, asks again, and takes a last one."""

    def __init__(self) -> None:
        self.steps: list[tuple[int, str]] = []
        self.bodies = 0

    def server(self, **options: Any) -> Server:
        server = Server("shop", **options)

        @server.tool
        async def book(number: int, ctx: Context) -> str:
            self.bodies += 1
            await ctx.step("quote", self.steps.append, (number, "quote"))
            days = await ctx.elicit("How long?", int)
            await ctx.step("reserve", self.steps.append, (number, "reserve"))
            sure = await ctx.elicit("Sure?", bool)
            await ctx.step("pay", self.steps.append, (number, "pay"))
            return f"{number}: {days.data} {sure.data}"

        return server


async def test_calls_go_through_any_replicas_and_each_step_runs_once(store: OpenStore) -> None:
    shop = Shop()
    async with replicas(shop.server, store) as clients:

        async def call(number: int) -> str:
            rounds = await Rounds.call(clients[number % 3], "book", number=number)
            await rounds.answer(number, clients[(number + 1) % 3])
            await rounds.answer(True, clients[(number + 2) % 3])
            return rounds.text

        results = await asyncio.gather(*(call(number) for number in range(101)))
    assert results == [f"{number}: {number} True" for number in range(101)]
    assert sorted(shop.steps) == sorted((number, step) for number in range(101) for step in ("quote", "reserve", "pay"))
    # Almost all handlers go on where they waited. On a busy machine one may be too slow to take its retry.
    assert shop.bodies < 2 * 101


async def test_of_concurrent_retries_at_several_replicas_one_is_accepted(store: OpenStore) -> None:
    shop = Shop()
    async with replicas(shop.server, store) as clients:
        rounds = await Rounds.call(clients[0], "book", number=1)
        retry = {"requestState": rounds.state, "inputResponses": rounds.accepted(2)}
        outcomes = await asyncio.gather(
            *(client.request(rounds.method, {**rounds.params, **retry}) for client in clients * 4),
            return_exceptions=True,
        )
        refused = [outcome for outcome in outcomes if isinstance(outcome, RemoteError)]
        assert len(refused) == len(outcomes) - 1
        assert {refusal.code for refusal in refused} == {INVALID_PARAMS}
    assert sorted(shop.steps) == [(1, "quote"), (1, "reserve")]


async def test_a_round_goes_on_after_all_replicas_were_restarted(store: OpenStore) -> None:
    shop = Shop()
    async with replicas(shop.server, store, 1) as [client]:
        rounds = await Rounds.call(client, "book", number=1)
    async with replicas(shop.server, store, 1) as [client]:
        await rounds.answer(2, client)
        await rounds.answer(True, client)
        assert rounds.text == "1: 2 True"
    assert shop.steps == [(1, "quote"), (1, "reserve"), (1, "pay")]


async def test_given_keys_are_not_kept_in_the_store(store: OpenStore) -> None:
    shop = Shop()
    async with replicas(shop.server, store, 2, keys=[KEY]) as clients:
        rounds = await Rounds.call(clients[0], "book", number=1)
        await rounds.answer(2, clients[1])
    async with replicas(shop.server, store, 1) as [stranger]:
        refusal = await rounds.refused(stranger, requestState=rounds.state, inputResponses=rounds.accepted(True))
        assert refusal.code == INVALID_PARAMS
    async with replicas(lambda: shop.server(state_keys=[KEY]), store, 1) as [client]:
        await rounds.answer(True, client)
        assert rounds.text == "1: 2 True"


def test_keys_are_given_once() -> None:
    server = Server("twice", state_keys=[KEY])
    with pytest.raises(LocalError, match="leave out keys="):
        server.asgi(keys=[KEY])
    with pytest.raises(LocalError, match="at least 16 bytes"):
        Server("weak").asgi(keys=[b"weak"])


async def test_a_store_of_one_process_holds_no_key() -> None:
    shop, memory = Shop(), MemoryStore()
    async with replicas(shop.server, lambda: memory, 1) as [client]:
        rounds = await Rounds.call(client, "book", number=1)
        await rounds.answer(2)
        assert await memory.get(f"sealing-key:{sealing_period(time.time())}") is None


@pytest.mark.attack("M12")
async def test_a_list_is_read_page_by_page_from_different_replicas(store: OpenStore) -> None:
    def make() -> Server:
        server = Server("many", page_size=2)
        for number in range(7):
            server.tool(lambda: "", name=f"tool_{number}")
        return server

    async with replicas(make, store) as clients:
        names: list[str] = []
        cursor: dict[str, Any] = {}
        for page in range(4):
            result = await clients[page % 3].request("tools/list", cursor)
            names += [tool["name"] for tool in result["tools"]]
            cursor = {"cursor": result.get("nextCursor")}
        assert names == [f"tool_{number}" for number in range(7)]
        with pytest.raises(RemoteError, match="Invalid cursor"):
            await clients[0].request("tools/list", {"cursor": "bm9uZQ"})


class UnreliableStore(MemoryStore):
    """A store that is shared, as far as a server knows, and can be away."""

    is_away = False

    @property
    def shared(self) -> bool:
        return True

    async def get(self, key: str) -> bytes | None:
        self._check()
        return await super().get(key)

    async def add(self, key: str, value: bytes, ttl: float | None = None) -> bool:
        self._check()
        return await super().add(key, value, ttl)

    def _check(self) -> None:
        if self.is_away:
            raise StoreUnavailable("connection refused")


@pytest.mark.attack("L12")
async def test_a_retry_is_refused_with_503_and_nothing_runs_while_the_store_is_away() -> None:
    shop, store = Shop(), UnreliableStore()
    async with serving(shop.server().asgi(store=store)) as url, asked(url + "/mcp") as client, Site(url) as site:
        rounds = await Rounds.call(client, "book", number=1)
        meta = modern_meta(elicitation={"form": {}})
        retry = modern(
            "tools/call", **rounds.params, meta=meta, requestState=rounds.state, inputResponses=rounds.accepted(2)
        )
        store.is_away = True
        answer = await site.post(retry, modern_headers(retry))
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        error = (await answer.json())["error"]
        assert (error["code"], error["message"]) == (
            INTERNAL_ERROR,
            "The store of the server does not work now; try again",
        )
        assert shop.steps == [(1, "quote")]
        store.is_away = False
        await rounds.answer(2)
        await rounds.answer(True)
        assert rounds.text == "1: 2 True"
    assert shop.steps == [(1, "quote"), (1, "reserve"), (1, "pay")]


async def test_calls_that_ask_nothing_need_no_store() -> None:
    server, store = Server("quick"), UnreliableStore()

    @server.tool
    async def quick(ctx: Context) -> str:
        return "quick"

    async with serving(server.asgi(store=store)) as url, asked(url + "/mcp") as client:
        store.is_away = True
        assert (await client.call("quick")).data == "quick"
