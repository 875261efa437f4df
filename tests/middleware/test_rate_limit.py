"""A shared rate limit counts the requests of all processes that serve with the same store."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from dovetail import Client, Server
from dovetail.middleware import Exchange, RateLimit
from dovetail.protocol.client_address import AddressKey
from dovetail.protocol.errors import LocalError, ProtocolError, RemoteError
from dovetail.protocol.revisions import NEWEST
from dovetail.runtime.middleware import Chain
from dovetail.runtime.rate_limit import TOO_MANY_REQUESTS
from dovetail.storage.memory import MemoryStore
from tests.support.http import serving

SLOW = 0.001
"""Requests a second: during a test nothing is refilled."""


async def passes(limit: RateLimit | Chain, client: Any = "bob") -> bool:
    """Send a request; return False if it is over the limit."""

    async def proceed(_: Exchange) -> dict[str, Any]:
        return {}

    exchange = Exchange("server", "in", "ping", {}, NEWEST, client_key=client)
    try:
        await (limit.run(exchange, proceed) if isinstance(limit, Chain) else limit(exchange, proceed))
    except ProtocolError as problem:
        if problem.code != TOO_MANY_REQUESTS or problem.data["retryAfterMs"] <= 0:
            raise
        return False
    return True


def shared(store: Any, *, burst: float = 3, **options: Any) -> RateLimit:
    limit = RateLimit(SLOW, burst=burst, shared=True, **options)
    limit.use_store(store, "shop:0")
    return limit


async def test_two_processes_count_together() -> None:
    store = MemoryStore()
    one, other = shared(store), shared(store)
    assert [await passes(limit) for limit in (one, other, one, other, one)] == [True, True, True, False, False]
    assert await passes(one, "ann"), "another client has a limit of its own"
    assert await passes(one, AddressKey("bob")), "an address is not a principal of the same name"


async def test_without_shared_each_process_counts_for_itself() -> None:
    store = MemoryStore()
    one, other = (RateLimit(SLOW, burst=1) for _ in range(2))
    for limit in (one, other):
        limit.use_store(store, "shop:0")
        assert await passes(limit)


async def test_a_client_over_the_limit_of_this_process_alone_costs_the_store_nothing() -> None:
    store = CountingStore()
    limit = shared(store)
    assert [await passes(limit) for _ in range(10)].count(True) == 3
    assert store.taken == 3


async def test_two_limits_of_one_server_do_not_count_together() -> None:
    store = MemoryStore()
    processes: list[Chain] = []
    for _ in range(2):
        chain = Chain([RateLimit(SLOW, burst=2, shared=True)])
        chain.use_store(store, "shop")
        chain.add(RateLimit(SLOW, burst=2, shared=True))
        processes.append(chain)
    one, other = processes
    assert [await passes(chain) for chain in (one, other, one)] == [True, True, False]


async def test_while_the_store_is_away_each_process_counts_for_itself(caplog: pytest.LogCaptureFixture) -> None:
    store = MemoryStore()
    await store.close()
    limit = shared(store)
    assert [await passes(limit) for _ in range(5)] == [True, True, True, False, False]
    [record] = caplog.records
    assert "until its store works again" in record.message


async def test_it_counts_in_the_store_again_when_that_is_back(caplog: pytest.LogCaptureFixture) -> None:
    away, back = MemoryStore(), MemoryStore()
    await away.close()
    limit = shared(away, burst=100)
    assert await passes(limit)
    limit.use_store(back, "shop:0")
    limit._store_failed_until = 0.0  # pyright: ignore[reportPrivateUsage]
    with caplog.at_level(logging.INFO, "dovetail"):
        assert await passes(limit)
    assert "in its store again" in caplog.text


def shop(limit: RateLimit) -> Server:
    server = Server("shop")
    server.use(limit, methods=["tools/call"])

    @server.tool
    def echo() -> str:
        return "hello"

    return server


async def answers(client: Client) -> bool:
    """Call a tool; return False if the call is over the limit."""
    try:
        await client.call("echo")
    except RemoteError as problem:
        if problem.code != TOO_MANY_REQUESTS:
            raise
        return False
    return True


async def test_without_a_store_it_counts_in_the_process_and_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    async with Client(shop(RateLimit(SLOW, burst=3, shared=True))) as client:
        assert [await answers(client) for _ in range(5)].count(True) == 3
    assert caplog.text.count("counts in this process only") == 1


async def test_a_key_that_differs_between_processes_is_refused() -> None:
    with pytest.raises(LocalError, match="a string, a number, or a tuple of them"):
        await passes(shared(MemoryStore(), key=lambda _: object()))


async def test_two_applications_with_one_store_limit_a_client_together(tmp_path: Path) -> None:
    file, answered = str(tmp_path / "store"), 0
    apps = [shop(RateLimit(SLOW, burst=4, shared=True)).asgi(store=file) for _ in range(2)]
    async with serving(apps[0]) as one, serving(apps[1]) as other:
        for url in (one, other, one, other):
            async with Client(f"{url}/mcp") as client:
                answered += [await answers(client) for _ in range(2)].count(True)
    assert answered == 4


class CountingStore(MemoryStore):
    """A store that counts what is taken from its buckets."""

    taken = 0

    async def take(self, bucket: str, rate: float, size: float, tokens: float = 1.0) -> float:
        self.taken += 1
        return await super().take(bucket, rate, size, tokens)
