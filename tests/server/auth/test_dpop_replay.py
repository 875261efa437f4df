"""A proof is taken once, by whoever shares the memory of it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from dovetail.auth.dpop import Proof
from dovetail.auth.errors import AuthorizationFailed, TokenRefused
from dovetail.server.auth.dpop_replay import FileProofs, OwnProofs, Proofs, StoredProofs
from dovetail.storage.memory import MemoryStore


def proof(id: str = "a", seconds: float = 60.0) -> Proof:
    return Proof("thumbprint", id, time.time() + seconds)


def shared(tmp_path: Path) -> dict[str, tuple[Proofs, Proofs]]:
    own, store = OwnProofs(), MemoryStore()
    stored = StoredProofs(lambda: store), StoredProofs(lambda: store)
    file = str(tmp_path / "proofs")
    return {"one process": (own, own), "a store": stored, "a file": (FileProofs(file), FileProofs(file))}


@pytest.mark.parametrize("kind", ["one process", "a store", "a file"])
async def test_the_second_time_it_is_refused_by_the_other_too(kind: str, tmp_path: Path) -> None:
    one, other = shared(tmp_path)[kind]
    await one.take(proof())
    for again in (one, other):
        with pytest.raises(TokenRefused, match="used before"):
            await again.take(proof())
    await other.take(proof("b"))
    for each in (one, other):
        await each.close()


async def test_a_file_is_made_for_the_first_proof_and_not_before(tmp_path: Path) -> None:
    proofs = FileProofs(str(tmp_path / "proofs"))
    await proofs.close()
    assert not (tmp_path / "proofs").exists()


async def test_a_store_that_fails_lets_nobody_in() -> None:
    store = MemoryStore()
    await store.close()
    with pytest.raises(AuthorizationFailed, match="store") as caught:
        await StoredProofs(lambda: store).take(proof())
    assert not isinstance(caught.value, TokenRefused), "it is not the proof's fault"
