"""Values that a server keeps in its store for longer than a call, sealed where others might read the store."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Protocol

from dovetail.protocol.errors import ProtocolError
from dovetail.protocol.seal import KeyRing

if TYPE_CHECKING:
    from dovetail.storage.contract import Store

    from .mrtr.stored_keys import StoredKeys


class SealingServer(Protocol):
    """The parts of a server that sealing uses."""

    @property
    def key_ring(self) -> KeyRing: ...
    @property
    def stored_keys(self) -> StoredKeys | None: ...
    @property
    def store(self) -> Store: ...


class SealedValues:
    """Seals values for the store, and opens them again; a store in memory gets them as they are.

    A value opens only under the name that it was sealed for, and for 30 days (`MAX_SEALED_SECONDS`).
    """

    def __init__(self, server: SealingServer) -> None:
        self._server = server

    async def seal(self, name: str, content: bytes) -> bytes:
        """A value as the store keeps it; StoreError if the keys cannot be fetched."""
        server = self._server
        if not server.store.shared:
            return content
        if server.stored_keys is not None:
            await server.stored_keys.prepare()
        return server.key_ring.seal(content, name.encode(), os.urandom(12)).encode()

    async def open(self, name: str, stored: bytes) -> bytes | None:
        """The value again; None if no key opens it, as when given keys were replaced."""
        server = self._server
        if not server.store.shared:
            return stored
        sealed = stored.decode("latin-1")
        if server.stored_keys is not None:
            await server.stored_keys.prepare_for_stored(sealed)
        try:
            return server.key_ring.open(sealed, name.encode())
        except ProtocolError:
            return None
