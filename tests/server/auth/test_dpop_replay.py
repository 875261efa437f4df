"""A proof is accepted once, by all processes that share a store."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from dovetail.auth.dpop import Proof
from dovetail.auth.errors import TokenRefused
from dovetail.server.auth.dpop_replay import ReplayCache
from dovetail.storage.contract import StoreError
from dovetail.storage.memory import MemoryStore
from dovetail.storage.sqlite import SqliteStore


def proof(id: str = "a", seconds: float = 60.0) -> Proof:
    return Proof("thumbprint", id, time.time() + seconds)


async def test_a_proof_is_refused_the_second_time_in_one_process() -> None:
    cache = ReplayCache()
    await cache.mark_used(proof())
    with pytest.raises(TokenRefused, match="used before"):
        await cache.mark_used(proof())
    await cache.mark_used(proof("b"))


async def test_a_proof_is_refused_the_second_time_in_every_process_that_shares_a_store(tmp_path: Path) -> None:
    stores = SqliteStore(str(tmp_path / "store")), SqliteStore(str(tmp_path / "store"))
    one, other = (ReplayCache(lambda store=store: store) for store in stores)
    await one.mark_used(proof())
    for again in (one, other):
        with pytest.raises(TokenRefused, match="used before"):
            await again.mark_used(proof())
    await other.mark_used(proof("b"))
    for store in stores:
        await store.close()


async def test_a_store_that_fails_lets_no_proof_in() -> None:
    store = MemoryStore()
    await store.close()
    with pytest.raises(StoreError):
        await ReplayCache(lambda: store).mark_used(proof())
