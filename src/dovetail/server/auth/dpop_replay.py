"""Proofs of a key are taken once (RFC 9449, section 11.1), by whichever process they reach.

One process remembers them itself. Where there is a store, everybody who shares it shares them too; workers without one
share a file in the folder that they have together (docs/adr/0018).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from dovetail.auth.dpop import Proof, Replays
from dovetail.auth.errors import AuthorizationFailed, TokenRefused
from dovetail.storage.contract import Entries, StoreError

if TYPE_CHECKING:
    from dovetail.storage.sqlite import SqliteStore


class Proofs(Protocol):
    """Remembers which proofs were used."""

    async def take(self, proof: Proof) -> None:
        """Take a proof; `TokenRefused` for one that was used before."""
        ...

    async def close(self) -> None:
        """Let go of what it opened itself."""
        ...


class OwnProofs:
    """Those that came to this process."""

    def __init__(self) -> None:
        self._replays = Replays()

    async def take(self, proof: Proof) -> None:
        """Take a proof; `TokenRefused` for one that was used before."""
        self._replays.admit(proof, time.time())

    async def close(self) -> None:
        """Forget them."""


class StoredProofs:
    """Those that came to anybody who shares a store, which is opened when the first one comes."""

    def __init__(self, store: Callable[[], Entries]) -> None:
        self._store = store

    async def take(self, proof: Proof) -> None:
        """Take a proof; `TokenRefused` for one that was used before."""
        try:
            first = await self._store().add(f"proof:{proof.id}", b"", max(1.0, proof.until - time.time()))
        except StoreError as problem:
            # To let it in would be to let it in twice.
            raise AuthorizationFailed(f"The store that remembers proofs failed: {problem}") from problem
        if not first:
            raise TokenRefused("The proof was used before")

    async def close(self) -> None:
        """The store belongs to who gave it."""


class FileProofs(StoredProofs):
    """Those that came to any of the workers of one server, in a file of theirs."""

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
