"""A lock that several processes share through a store."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from dovetail.storage import MemoryStore, SqliteStore, Store
from dovetail.storage.lock import LockTimeout, store_lock
from tests.support.redis_server import needs_redis
from tests.support.replica_clients import opens_redis


@pytest.fixture(params=["memory", "sqlite", pytest.param("redis", marks=needs_redis)])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Store, Store]]:
    """Two stores with the same contents, as two processes have them."""
    if request.param == "memory":
        memory = MemoryStore()
        yield memory, memory
    elif request.param == "sqlite":
        yield SqliteStore(tmp_path / "a.db"), SqliteStore(tmp_path / "a.db")
    else:
        opens = opens_redis()
        yield opens(), opens()


async def test_one_at_a_time_holds_a_lock(stores: tuple[Store, Store]) -> None:
    holders, most = 0, 0

    async def work(store: Store) -> None:
        nonlocal holders, most
        async with store_lock(store, "lock", 20):
            holders += 1
            most = max(most, holders)
            await asyncio.sleep(0)
            holders -= 1

    await asyncio.gather(*(work(stores[number % 2]) for number in range(12)))
    assert most == 1
    await asyncio.gather(*(store.close() for store in set(stores)))


async def test_locks_of_other_names_are_free_meanwhile(stores: tuple[Store, Store]) -> None:
    async with store_lock(stores[0], "one", 1), store_lock(stores[1], "other", 1):
        pass
    await asyncio.gather(*(store.close() for store in set(stores)))


async def test_who_waits_too_long_is_told_so(stores: tuple[Store, Store]) -> None:
    async with store_lock(stores[0], "lock", 1):
        with pytest.raises(LockTimeout, match=r"more than 0\.1 s"):
            async with store_lock(stores[1], "lock", 0.1):
                raise AssertionError("the lock is held")
    async with store_lock(stores[1], "lock", 1):
        pass
    await asyncio.gather(*(store.close() for store in set(stores)))


async def test_the_lock_of_a_process_that_died_is_free_after_a_while(
    stores: tuple[Store, Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dovetail.storage.lock.HELD_SECONDS", 0.3)
    assert await stores[0].add("lock", b"of one that died", 0.3)
    async with store_lock(stores[1], "lock", 5):
        pass
    await asyncio.gather(*(store.close() for store in set(stores)))


async def test_a_holder_that_lives_keeps_the_lock(stores: tuple[Store, Store], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dovetail.storage.lock.HELD_SECONDS", 0.3)
    async with store_lock(stores[0], "lock", 1):
        with pytest.raises(LockTimeout):
            async with store_lock(stores[1], "lock", 1):  # more than three times as long as it is kept
                raise AssertionError("the lock is held")
    await asyncio.gather(*(store.close() for store in set(stores)))
