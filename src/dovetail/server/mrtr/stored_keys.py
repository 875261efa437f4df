"""Sealing keys in a store: replicas that share it open the states, and accept the cursors, of each other.

Each period of time has one key, in an entry of its own: whoever needs it first adds it, and of several the store lets
one win. No entry is ever overwritten, so that rotation cannot lose a key that something is sealed with. The store drops
an entry when everything that its key sealed has expired.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable

from dovetail.protocol.key_periods import next_change, older_periods, removed_at, usable_periods
from dovetail.protocol.seal import KeyRing
from dovetail.storage.contract import Entries, StoreError, StoreUnusable

KEY_BYTES = 32

CHECK_SECONDS = 60.0
"""A key that is in use is looked up again after this time: a store that lost its content gets the key back."""

LOOK_AGAIN_SECONDS = 1.0
"""Unknown keys cause at most one look at the store in this time, whatever clients send."""


class StoredKeys:
    """The keys of one server, in a store; they replace those in its key ring."""

    def __init__(
        self,
        ring: KeyRing,
        store: Entries,
        on_change: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`on_change` is called when another key than before seals."""
        self._ring = ring
        self._store = store
        self._on_change = on_change
        self._clock = clock
        self._known: dict[int, list[bytes]] = {}
        """The keys of each period. There is one, unless the store lost its content: then the one in the store is first,
        and the others still open what they sealed."""
        self._older: dict[int, bytes] = {}
        """Keys of earlier periods that something in the store needed."""
        self._checked = self._current_until = self._looked_again = 0.0
        self._reading = asyncio.Lock()

    @property
    def is_current(self) -> bool:
        """True if `prepare` has nothing to do."""
        return self._checked <= self._clock() < self._current_until

    async def prepare(self) -> None:
        """Have the keys of this time in the ring; StoreError if one is unknown and the store does not work."""
        if self.is_current:
            return
        async with self._reading:
            if not self.is_current:
                await self._read()

    async def prepare_for(self, sealed: str) -> None:
        """Have the keys of this time in the ring, and the one that a state names, if the store has it."""
        await self.prepare()
        if not self._ring.has_key_of(sealed):
            await self.look_again()

    async def prepare_for_stored(self, sealed: str) -> None:
        """Have the key in the ring that something from the store was sealed with, however long ago."""
        await self.prepare_for(sealed)
        if self._ring.has_key_of(sealed):
            return
        async with self._reading:
            for period in older_periods(self._clock()):
                key = await self._store.get(_name(period))
                if key is not None:
                    self._older[period] = key
                    self._fill_ring()
                    if self._ring.has_key_of(sealed):
                        return

    async def look_again(self) -> bool:
        """Read the keys from the store unless that was done just now; True if there is another key than before."""
        before = self._ring.secrets
        async with self._reading:
            now = self._clock()
            if not 0 <= now - self._looked_again < LOOK_AGAIN_SECONDS:
                self._looked_again = now
                await self._read()
        return self._ring.secrets != before

    async def _read(self) -> None:
        now = self._clock()
        periods = usable_periods(now)
        try:
            found = {period: await self._find_or_add(period, now) for period in periods}
        except StoreError:
            if any(period not in self._known for period in periods):
                raise
            found = {}  # nothing new, but all keys of this time are known
        self._known = {period: self._known.get(period, []) for period in periods}
        for period, key in found.items():
            self._known[period] = [key, *(other for other in self._known[period] if other != key)]
        sealing = self._ring.secrets[0]
        self._fill_ring()
        self._checked, self._current_until = now, min(next_change(now), now + CHECK_SECONDS)
        if sealing != self._ring.secrets[0]:
            self._on_change()

    def _fill_ring(self) -> None:
        older = set(older_periods(self._clock()))
        self._older = {period: key for period, key in self._older.items() if period in older}
        secrets = [key for keys in self._known.values() for key in keys] + list(self._older.values())
        if list(self._ring.secrets) != secrets:
            self._ring.replace(secrets)

    async def _find_or_add(self, period: int, now: float) -> bytes:
        store, name = self._store, _name(period)
        key = await store.get(name)
        if key is None:
            known = self._known.get(period)
            key = known[0] if known else os.urandom(KEY_BYTES)
            if not await store.add(name, key, removed_at(period) - now):
                key = await store.get(name)
        if key is None or len(key) != KEY_BYTES:
            raise StoreUnusable(f"The store has no usable sealing key: its entry {name!r} is not {KEY_BYTES} bytes")
        return key


def _name(period: int) -> str:
    return f"sealing-key:{period}"
