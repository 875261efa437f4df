"""A proof is taken once, by whoever shares the memory of it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from dovetail.auth.dpop import Proof
from dovetail.auth.errors import AuthorizationFailed, TokenRefused
from dovetail.server.auth.dpop_replay import FileReplayCache, MemoryReplayCache, ReplayCache, StoreReplayCache
from dovetail.storage.memory import MemoryStore


def proof(id: str = "a", seconds: float = 60.0) -> Proof:
    return Proof("thumbprint", id, time.time() + seconds)


def shared(tmp_path: Path) -> dict[str, tuple[ReplayCache, ReplayCache]]:
    own, store = MemoryReplayCache(), MemoryStore()
    stored = StoreReplayCache(lambda: store), StoreReplayCache(lambda: store)
    file = str(tmp_path / "proofs")
    return {"one process": (own, own), "a store": stored, "a file": (FileReplayCache(file), FileReplayCache(file))}


@pytest.mark.parametrize("kind", ["one process", "a store", "a file"])
async def test_a_proof_is_refused_the_second_time_by_every_cache_that_shares_it(kind: str, tmp_path: Path) -> None:
    one, other = shared(tmp_path)[kind]
    await one.mark_used(proof())
    for again in (one, other):
        with pytest.raises(TokenRefused, match="used before"):
            await again.mark_used(proof())
    await other.mark_used(proof("b"))
    for each in (one, other):
        await each.close()


async def test_a_file_is_made_for_the_first_proof_and_not_before(tmp_path: Path) -> None:
    proofs = FileReplayCache(str(tmp_path / "proofs"))
    await proofs.close()
    assert not (tmp_path / "proofs").exists()


async def test_a_store_that_fails_refuses_every_proof() -> None:
    store = MemoryStore()
    await store.close()
    with pytest.raises(AuthorizationFailed, match="store") as caught:
        await StoreReplayCache(lambda: store).mark_used(proof())
    assert not isinstance(caught.value, TokenRefused), "it is not the proof's fault"
