"""Sealing keys in a store: one for each period, the same for all replicas."""

from __future__ import annotations

import asyncio
import os

import pytest

from dovetail.protocol.errors import ProtocolError
from dovetail.protocol.key_periods import CLOCK_DIFFERENCE_SECONDS, PERIOD_SECONDS, dropped_at
from dovetail.protocol.mrtr import MAX_STATE_SECONDS
from dovetail.protocol.seal import KeyRing
from dovetail.server.mrtr.stored_keys import CHECK_SECONDS, LOOK_AGAIN_SECONDS, StoredKeys
from dovetail.storage import MemoryStore, StoreError

BOUNDARY = 1000.0 * PERIOD_SECONDS
NOON = BOUNDARY - PERIOD_SECONDS / 2


class CountingStore(MemoryStore):
    """A store that counts its reads, and can be out of order."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0
        self.is_away = False

    async def get(self, key: str) -> bytes | None:
        self.reads += 1
        if self.is_away:
            raise StoreError("connection refused")
        return await super().get(key)


class Replica:
    """The keys of one process, at a time that a test sets."""

    def __init__(self, store: MemoryStore, now: float = NOON) -> None:
        self.now = now
        self.changes = 0
        self.ring = KeyRing([os.urandom(32)])
        self.keys = StoredKeys(self.ring, store, self._changed, lambda: self.now)

    def _changed(self) -> None:
        self.changes += 1

    async def seal(self) -> str:
        await self.keys.prepare()
        return self.ring.seal(b"content", b"", os.urandom(12))

    async def opens(self, sealed: str) -> bool:
        await self.keys.prepare_for(sealed)
        try:
            return self.ring.open(sealed, b"") == b"content"
        except ProtocolError:
            return False


async def test_replicas_open_the_states_of_each_other() -> None:
    store = CountingStore()
    one, two = Replica(store), Replica(store)
    assert await two.opens(await one.seal())
    assert await one.opens(await two.seal())


async def test_of_replicas_that_start_together_one_makes_the_key() -> None:
    store = CountingStore()
    replicas = [Replica(store) for _ in range(10)]
    sealed = await asyncio.gather(*(replica.seal() for replica in replicas))
    assert all([await replica.opens(one) for replica in replicas for one in sealed])
    assert len({replica.ring.secrets for replica in replicas}) == 1


async def test_a_key_is_read_once_for_many_calls() -> None:
    store = CountingStore()
    replica = Replica(store)
    for _ in range(100):
        await replica.opens(await replica.seal())
    assert store.reads == 1


async def test_a_key_seals_for_one_period_and_opens_until_what_it_sealed_has_expired() -> None:
    store = CountingStore()
    one, two = Replica(store, BOUNDARY - 1), Replica(store, BOUNDARY - 1)
    early = await one.seal()
    one.now = two.now = BOUNDARY + 1
    late = await two.seal()
    assert one.ring.secrets[0] != two.ring.secrets[0]
    assert await one.opens(late)
    assert one.ring.secrets == two.ring.secrets
    assert one.changes == 2
    one.now = two.now = BOUNDARY + MAX_STATE_SECONDS - 1
    assert await one.opens(early)
    assert await two.opens(early)
    one.now = dropped_at(999)
    assert not await one.opens(early)
    assert len(one.ring.secrets) == 1
    assert await one.opens(late)


async def test_replicas_whose_clocks_differ_open_the_states_of_each_other_at_rotation() -> None:
    store = CountingStore()
    ahead, behind = Replica(store), Replica(store)
    for minute in range(-10, 10):
        behind.now = BOUNDARY + 60 * minute
        ahead.now = behind.now + CLOCK_DIFFERENCE_SECONDS - 1
        assert await behind.opens(await ahead.seal())
        assert await ahead.opens(await behind.seal())


async def test_states_with_unknown_keys_cause_at_most_one_read_a_second() -> None:
    store = CountingStore()
    replica, strange = Replica(store), KeyRing([os.urandom(32)])
    await replica.seal()
    before = store.reads
    for _ in range(1000):
        assert not await replica.opens(strange.seal(b"content", b"", os.urandom(12)))
    assert store.reads == before + 1
    replica.now += LOOK_AGAIN_SECONDS
    assert not await replica.opens("nothing")
    assert store.reads == before + 2


async def test_a_store_that_lost_its_content_gets_the_key_back() -> None:
    store = CountingStore()
    replica = Replica(store)
    sealed = await replica.seal()
    await store.delete("sealing-key:999")
    replica.now += CHECK_SECONDS
    await replica.seal()
    assert await Replica(store).opens(sealed)


async def test_a_key_made_by_another_replica_after_that_is_used_beside_the_old_one() -> None:
    store = CountingStore()
    one, two = Replica(store), Replica(store)
    before = await one.seal()
    await store.delete("sealing-key:999")
    after = await two.seal()
    assert await one.opens(after)
    assert await one.opens(before)
    assert await two.opens(await one.seal())


async def test_a_store_that_is_away_does_not_matter_while_the_keys_are_known() -> None:
    store = CountingStore()
    replica = Replica(store)
    store.is_away = True
    with pytest.raises(StoreError):
        await replica.seal()
    store.is_away = False
    sealed = await replica.seal()
    store.is_away = True
    replica.now += CHECK_SECONDS
    assert await replica.opens(sealed)
    replica.now = BOUNDARY
    with pytest.raises(StoreError):
        await replica.seal()


async def test_an_entry_that_is_no_key_is_refused() -> None:
    store = CountingStore()
    await store.put("sealing-key:999", b"short")
    with pytest.raises(StoreError, match="'sealing-key:999' is not 32 bytes"):
        await Replica(store).seal()
