"""DPoP replay protection: a proof is accepted once (RFC 9449, section 11.1), whichever process it reaches.

A single process remembers used proofs in memory; processes that share a store, as workers do, share them there
(docs/adr/0018).
"""

from __future__ import annotations

import time
from collections.abc import Callable

from dovetail.auth.dpop import Proof, UsedProofs
from dovetail.auth.errors import TokenRefused
from dovetail.storage.contract import Entries


class ReplayCache:
    """The DPoP proofs that were used, here or in any process that shares the store."""

    def __init__(self, store: Callable[[], Entries | None] | None = None) -> None:
        """`store` opens the shared store, for the first proof; None if there is none."""
        self._store = store
        self._used = UsedProofs()

    async def mark_used(self, proof: Proof) -> None:
        """Record a proof as used; `TokenRefused` if it was used before, `StoreError` if that cannot be known."""
        now = time.time()
        store = None if self._store is None else self._store()
        if store is None:
            self._used.admit(proof, now)
        elif not await store.add(f"dpop:{proof.id}", b"", max(1.0, proof.until - now)):
            raise TokenRefused("The proof was used before")
