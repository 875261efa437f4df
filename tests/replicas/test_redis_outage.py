"""Redis that is stopped, silent, full, or refuses the password: what needs it is refused soon, all else goes on."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from dovetail import Client
from tests.support.nginx import needs_nginx
from tests.support.raw_http import Answer, Session, Site, initialize, text_of
from tests.support.redis_server import RedisServer, SentinelGroup, needs_redis, redis_server
from tests.support.replicas import Replica, Replicas
from tests.support.waiting import until

pytestmark = [needs_nginx, needs_redis]

SOON = 3.0
"""Seconds for a refusal: a store that does not answer is given up after one, and the machine may be busy."""


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    with redis_server(tmp_path / "redis") as server:
        yield server


@contextlib.contextmanager
def stopped(redis: RedisServer) -> Iterator[None]:
    redis.stop()
    try:
        yield
    finally:
        redis.start()


@contextlib.contextmanager
def full(redis: RedisServer) -> Iterator[None]:
    redis.ask("CONFIG", "SET", "maxmemory", "1")
    try:
        yield
    finally:
        redis.ask("CONFIG", "SET", "maxmemory", "0")


@contextlib.contextmanager
def locked(redis: RedisServer) -> Iterator[None]:
    """Require a password that no replica has; connections that are open are closed."""
    redis.ask("CONFIG", "SET", "requirepass", "another")
    redis.password = "another"
    redis.ask("CLIENT", "KILL", "TYPE", "normal")
    redis.ask("CLIENT", "KILL", "TYPE", "pubsub")
    try:
        yield
    finally:
        redis.ask("CONFIG", "SET", "requirepass", "")
        redis.password = None


OUTAGES: dict[str, Callable[[RedisServer], contextlib.AbstractContextManager[None]]] = {
    "stopped": stopped,
    "silent": lambda redis: redis.paused(),
    "full": full,
    "locked": locked,
}


def health(replica: Replica) -> dict[str, str]:
    with urllib.request.urlopen(f"{replica.url}/health", timeout=20) as response:
        return json.load(response)


async def refusal(site: Site) -> Answer:
    """A new session, which needs the store."""
    begun = time.monotonic()
    answer = await site.post(initialize("2025-11-25"))
    await answer.body()
    assert time.monotonic() - begun < SOON
    return answer


@contextlib.asynccontextmanager
async def warm(replicas: Replicas) -> AsyncIterator[list[Session]]:
    """One session, as each replica has it."""
    async with contextlib.AsyncExitStack() as stack:
        sites = [await stack.enter_async_context(Site(replica.url)) for replica in replicas.all]
        begun = await sites[0].session("2025-11-25")
        sessions = [Session(site, begun.revision, begun.id) for site in sites]
        for session in sessions:
            await (await session.ask("ping")).json()
        yield sessions


@pytest.mark.parametrize("outage", OUTAGES)
async def test_what_needs_redis_is_refused_soon_and_all_else_goes_on(
    outage: str, redis: RedisServer, start: Callable[..., Replicas]
) -> None:
    replicas = start(redis.url, number=2)
    async with warm(replicas) as sessions, Site(replicas.nginx.url) as site:
        with OUTAGES[outage](redis):
            for _ in range(3):
                refused = await refusal(site)
                assert (refused.status, refused.headers["retry-after"]) == (503, "1")
            for number, session in enumerate(sessions):
                key = f"{outage} {number}"
                assert text_of(await (await session.call("once", key=key)).answer()) == key
            async with Client(replicas.url, revision="2026-07-28") as client:
                assert (await client.call("once", key="newest")).text == "newest"
            await until(lambda: all(health(replica)["store"] == "unavailable" for replica in replicas.all))
        await until(lambda: all(health(replica)["store"] == "ok" for replica in replicas.all))
        assert (await refusal(site)).status == 200
        assert text_of(await (await sessions[1].call("once", key="after")).answer()) == "after"
    assert "Traceback" not in replicas.stderr


async def test_a_replica_starts_while_redis_is_away(redis: RedisServer, start: Callable[..., Replicas]) -> None:
    redis.stop()
    replicas = start(redis.url, number=1)
    async with Site(replicas.nginx.url) as site:
        assert (await refusal(site)).status == 503
        redis.start()
        await until(lambda: health(replicas[0])["store"] == "ok")
        assert (await refusal(site)).status == 200


@pytest.fixture
def sentinels(tmp_path: Path) -> Iterator[SentinelGroup]:
    group = SentinelGroup(tmp_path / "group", down_after=2.0)
    try:
        group.start()
        yield group
    finally:
        group.kill()


@pytest.mark.slow
async def test_sessions_are_opened_again_after_a_failover_by_sentinel_and_warm_ones_go_on(
    sentinels: SentinelGroup, start: Callable[..., Replicas]
) -> None:
    replicas = start(sentinels.url, number=2)
    async with warm(replicas) as sessions, Site(replicas.nginx.url) as site:
        # What was acknowledged is at the copy, so that the sessions are known after the failover too.
        await until(lambda: b":1\r\n" in sentinels.master.ask("WAIT", "1", "1000"))
        sentinels.master.kill()
        begun = await refusal(site)
        assert begun.status == 503
        for number, session in enumerate(sessions):
            assert text_of(await (await session.call("once", key=f"{number}")).answer()) == f"{number}"
        while begun.status != 200:
            assert begun.status == 503
            await asyncio.sleep(int(begun.headers["retry-after"]))
            begun = await refusal(site)
        assert b"role:master" in sentinels.replica.ask("INFO", "replication")
        await until(lambda: all(health(replica)["store"] == "ok" for replica in replicas.all))
        for session in (Session(site, "2025-11-25", begun.headers["mcp-session-id"]), *sessions):
            assert "result" in await (await session.ask("ping")).json()
    assert "Traceback" not in replicas.stderr
