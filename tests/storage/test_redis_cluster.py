"""The store in a Redis cluster, and behind Sentinel: slots that move, nodes that die, masters that change."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis.crc import key_slot

from dovetail.storage.contract import StoreUnavailable, StoreUnusable
from dovetail.storage.redis.store import RedisStore
from tests.storage.test_redis import Received, eventually, fails_within_a_second
from tests.support.redis_server import (
    RedisCluster,
    SentinelGroup,
    free_port,
    needs_redis,
    shared_cluster,
    shared_redis,
)
from tests.support.tidy import nothing_left_on_the_loop
from tests.support.waiting import until

pytestmark = needs_redis


@pytest.fixture
def cluster() -> RedisCluster:
    return shared_cluster()


@pytest.fixture
def own_cluster(tmp_path: Path) -> Iterator[RedisCluster]:
    """A cluster whose nodes a test may stop."""
    cluster = RedisCluster(tmp_path / "cluster")
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.kill()


@pytest.fixture
def sentinels(tmp_path: Path) -> Iterator[SentinelGroup]:
    group = SentinelGroup(tmp_path / "group")
    try:
        group.start()
        yield group
    finally:
        group.kill()


def entry_slot(key: str, prefix: str = "dovetail:") -> int:
    return key_slot(f"{prefix}e:{key}".encode())


async def test_one_node_is_enough_to_find_the_others(cluster: RedisCluster) -> None:
    prefix = os.urandom(6).hex() + ":"
    async with nothing_left_on_the_loop():
        store = RedisStore(cluster.url, prefix=prefix)
        keys = [f"{n}" for n in range(100)]
        assert len({cluster.owner(entry_slot(key, prefix)) for key in keys}) == 3
        await asyncio.gather(*(store.put(key, key.encode(), 60) for key in keys))
        assert await asyncio.gather(*(store.get(key) for key in keys)) == [key.encode() for key in keys]
        await store.close()


async def test_a_seed_that_is_away_does_not_matter_if_another_is_there(cluster: RedisCluster) -> None:
    store = RedisStore(f"redis+cluster://127.0.0.1:{free_port()},127.0.0.1:{cluster.nodes[2].port}")
    assert await store.get("a") is None
    await store.close()
    store = RedisStore(f"redis+cluster://127.0.0.1:{free_port()},127.0.0.1:{free_port()}")
    await fails_within_a_second(lambda: store.get("a"), StoreUnavailable)
    await fails_within_a_second(lambda: store.follow("a", 0, print), StoreUnavailable)
    await store.close()


async def test_a_url_of_the_wrong_kind_is_told(cluster: RedisCluster) -> None:
    single = RedisStore(f"redis://127.0.0.1:{cluster.nodes[0].port}")
    key = next(f"{n}" for n in range(99) if cluster.owner(entry_slot(f"{n}")) is not cluster.nodes[0])
    assert "redis+cluster://" in str(await fails_within_a_second(lambda: single.get(key), StoreUnusable))
    await single.close()
    none = RedisStore(shared_redis().url.replace("redis:", "redis+cluster:"))
    assert "redis://" in str(await fails_within_a_second(lambda: none.get(key), StoreUnusable))
    await none.close()
    master = RedisStore(shared_redis().url.replace("redis:", "redis+sentinel:") + "/main")
    assert "is not a Sentinel" in str(await fails_within_a_second(lambda: master.get(key), StoreUnusable))
    await master.close()


@pytest.mark.slow
async def test_slots_move_and_nodes_die_without_loss_elsewhere(own_cluster: RedisCluster) -> None:
    store = RedisStore(own_cluster.url)
    first, second, third = own_cluster.nodes
    by_owner = {own_cluster.owner(key_slot(f"dovetail:l:{n}".encode())): f"{n}" for n in range(99)}
    received = {log: Received() for log in by_owner.values()}
    for log, follower in received.items():
        await store.follow(log, 0, follower)
        assert await store.append(log, [b"1"]) == 1

    # A slot that has moved: the node that had it names the one that has it.
    key = next(f"{n}" for n in range(999) if own_cluster.owner(entry_slot(f"{n}")) is second)
    await store.get(key)
    own_cluster.move(entry_slot(key), third)
    await store.put(key, b"moved")
    assert await store.get(key) == b"moved"
    assert b"moved" in third.ask("GET", f"dovetail:e:{key}")

    # A node that dies takes its keys with it, and nothing else; followers of other logs go on.
    first.kill()
    await fails_within_a_second(lambda: store.append(by_owner[first], [b"2"]), StoreUnavailable)
    for node in (second, third):
        assert await eventually(lambda log=by_owner[node]: store.append(log, [b"2"])) == 2
        await until(lambda log=by_owner[node]: received[log].entries == [(1, b"1"), (2, b"2")])
    assert await store.get(key) == b"moved"
    await store.close()


@pytest.mark.slow
async def test_a_slot_that_is_being_moved_is_asked_for_at_its_new_node(own_cluster: RedisCluster) -> None:
    store = RedisStore(own_cluster.url)
    key = next(f"{n}" for n in range(999) if own_cluster.owner(entry_slot(f"{n}")) is own_cluster.nodes[0])
    assert await store.get(key) is None
    old, new = own_cluster.nodes[:2]
    ids = [node.ask("CLUSTER", "MYID").split(b"\r\n")[1] for node in (old, new)]
    new.ask("CLUSTER", "SETSLOT", str(entry_slot(key)), "IMPORTING", ids[0])
    old.ask("CLUSTER", "SETSLOT", str(entry_slot(key)), "MIGRATING", ids[1])
    assert await store.add(key, b"new")
    assert await store.get(key) == b"new"
    assert old.ask("DBSIZE") == b":0\r\n"
    assert new.ask("DBSIZE") == b":1\r\n"
    await store.close()


@pytest.mark.slow
async def test_a_failover_by_sentinel_is_followed(sentinels: SentinelGroup) -> None:
    store = RedisStore(sentinels.url)
    received = Received()
    await store.follow("log", 0, received)
    await store.append("log", [b"1"])
    await until(lambda: b":1\r\n" in sentinels.master.ask("WAIT", "1", "1000"))
    await until(lambda: sentinels.replica.ask("EXISTS", "dovetail:l:log") == b":1\r\n")
    sentinels.master.kill()
    await fails_within_a_second(lambda: store.append("log", [b"lost"]), StoreUnavailable)
    assert await eventually(lambda: store.append("log", [b"2"])) == 2
    await until(lambda: received.entries == [(1, b"1"), (2, b"2")])
    # The old master comes back as a replica, to which nothing is written.
    sentinels.master.start()
    assert await store.append("log", [b"3"]) == 3
    assert sentinels.replica.ask("LLEN", "dovetail:l:log") == b":4\r\n"
    await store.close()


@pytest.mark.slow
async def test_a_service_that_no_sentinel_knows_is_told(sentinels: SentinelGroup) -> None:
    store = RedisStore(sentinels.url.replace("/main", "/typo"))
    problem = await fails_within_a_second(lambda: store.get("a"), StoreUnusable)
    assert "'typo'" in str(problem)
    await store.close()
    away = f"127.0.0.1:{free_port()}"
    store = RedisStore(sentinels.url.replace("127.0.0.1", f"{away},127.0.0.1"))
    assert await store.get("a") is None
    await store.close()
    store = RedisStore(f"redis+sentinel://{away}/main")
    problem = await fails_within_a_second(lambda: store.get("a"), StoreUnavailable)
    assert "Sentinel" in str(problem)
    await store.close()
