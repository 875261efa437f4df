"""DPoP replay protection: a proof is accepted once (RFC 9449, section 11.1), whichever process it reaches.

A single process remembers used proofs in memory. Processes that share a store share them there; workers without a
store share a file in their common folder (docs/adr/0018).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from dovetail.auth.dpop import Proof, UsedProofs
from dovetail.auth.errors import AuthorizationFailed, TokenRefused
from dovetail.storage.contract import Entries, StoreError

if TYPE_CHECKING:
    from dovetail.storage.sqlite import SqliteStore


class ReplayCache(Protocol):
    """The DPoP proofs that were used."""

    async def mark_used(self, proof: Proof) -> None:
        """Record a proof as used; `TokenRefused` if it was used before."""
        ...

    async def close(self) -> None:
        """Close what it opened itself."""
        ...


class MemoryReplayCache:
    """The proofs that reached this process."""

    def __init__(self) -> None:
        self._used = UsedProofs()

    async def mark_used(self, proof: Proof) -> None:
        """Record a proof as used; `TokenRefused` if it was used before."""
        self._used.admit(proof, time.time())

    async def close(self) -> None:
        """Nothing is open."""


class StoreReplayCache:
    """The proofs that reached any process with the same store, which is opened for the first of them."""

    def __init__(self, store: Callable[[], Entries]) -> None:
        self._store = store

    async def mark_used(self, proof: Proof) -> None:
        """Record a proof as used; `TokenRefused` if it was used before."""
        try:
            first = await self._store().add(f"proof:{proof.id}", b"", max(1.0, proof.until - time.time()))
        except StoreError as problem:
            # Fail closed: without the store, a replayed proof could not be told from a new one.
            raise AuthorizationFailed(f"The store that remembers proofs failed: {problem}") from problem
        if not first:
            raise TokenRefused("The proof was used before")

    async def close(self) -> None:
        """The store belongs to the application, which closes it."""


class FileReplayCache(StoreReplayCache):
    """The proofs that reached any worker of one server, in a file that they share."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file: SqliteStore | None = None
        super().__init__(self._open)

    def _open(self) -> Entries:
        from dovetail.storage.sqlite import SqliteStore

        if self._file is None:
            self._file = SqliteStore(self._path)
        return self._file

    async def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            await self._file.close()
