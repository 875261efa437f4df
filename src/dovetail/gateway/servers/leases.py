"""Leases: calls that may be asked something in rounds each have a connection of their own while they are in progress.

A server of the handshake era does not say which of several calls a question belongs to, and a question in rounds is
answered by repeating its call. So no two such calls of a client share a connection.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Hashable
from typing import NamedTuple, TypeAlias

MAX_LEASES = 8
"""Connections of one client to one server for such calls while the server works on them; further calls wait."""

MAX_WAITING_LEASES = 32
"""The same, with those for calls that wait for the answer of the client; beyond it the oldest of these is given up."""

ConnectionKey: TypeAlias = tuple[Hashable, bytes, int]
"""The client that a connection belongs to, None for all of them, the capabilities that it declares, and a number.

The number is 0 but for calls that need a connection of their own while another is in progress.
"""

GiveUp: TypeAlias = "Callable[[], object]"
"""Cancels a call that waits for an answer of its client."""


class _Lease(NamedTuple):
    key: ConnectionKey
    give_up: GiveUp


class Leases:
    """The connections that calls in progress have for themselves."""

    def __init__(self, is_waiting: Callable[[ConnectionKey], bool]) -> None:
        """`is_waiting` tells if the call that has a connection waits for an answer of its client."""
        self._is_waiting = is_waiting
        self._leases: dict[ConnectionKey, _Lease] = {}
        """The oldest first."""
        self._freed = asyncio.Event()

    @contextlib.asynccontextmanager
    async def lease(
        self, owner: Hashable, declared: bytes, give_up: GiveUp, seconds: float
    ) -> AsyncGenerator[ConnectionKey | None]:
        """The first connection of a client that no other call has, for a while; None if none becomes free in time."""
        try:
            key = await self.acquire(owner, declared, give_up, seconds)
        except TimeoutError:
            yield None
            return
        try:
            yield key
        finally:
            self.release(key)

    async def acquire(self, owner: Hashable, declared: bytes, give_up: GiveUp, seconds: float) -> ConnectionKey:
        """The first connection of a client that no other call has; raises TimeoutError."""
        async with asyncio.timeout(seconds):
            while (key := self._next(owner, declared)) is None:
                self._freed.clear()
                await self._freed.wait()
        self._leases[key] = _Lease(key, give_up)
        return key

    def release(self, key: ConnectionKey) -> None:
        """The call has ended."""
        self._leases.pop(key, None)
        self._freed.set()

    def _next(self, owner: Hashable, declared: bytes) -> ConnectionKey | None:
        taken = [lease for lease in self._leases.values() if lease.key[:2] == (owner, declared)]
        waiting = [lease for lease in taken if self._is_waiting(lease.key)]
        if len(taken) - len(waiting) >= MAX_LEASES:
            return None
        if len(taken) >= MAX_WAITING_LEASES:
            waiting[0].give_up()
            return None
        numbers = {lease.key[2] for lease in taken}
        return owner, declared, next(number for number in range(len(taken) + 1) if number not in numbers)
