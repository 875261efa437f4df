"""A lock that several processes share through a store."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator

from .contract import Entries, StoreError

HELD_SECONDS = 10.0
"""Seconds after which the lock of a process that died is free again; one that lives renews it."""

_FIRST_PAUSE = 0.02
_MAX_PAUSE = 0.25
"""Seconds between two attempts to get a lock that another holds; they double with each attempt."""


class LockTimeout(StoreError):
    """Others have held a lock for longer than its next user would wait."""


@contextlib.asynccontextmanager
async def store_lock(store: Entries, name: str, wait: float) -> AsyncGenerator[None]:
    """Hold a lock that no other task or process holds at the same time; `LockTimeout` after `wait` seconds.

    A holder that cannot reach the store for longer than `HELD_SECONDS` loses the lock without noticing: what is done
    under it must be harmless to do twice.
    """
    mine, pause = os.urandom(16), _FIRST_PAUSE
    try:
        async with asyncio.timeout(wait):
            while not await store.add(name, mine, HELD_SECONDS):
                await asyncio.sleep(pause)
                pause = min(2 * pause, _MAX_PAUSE)
    except TimeoutError:
        raise LockTimeout(f"Another task or process has held a lock for more than {wait:g} s") from None
    renewing = asyncio.get_running_loop().create_task(_renew(store, name, mine))
    try:
        yield
    finally:
        renewing.cancel()
        await asyncio.wait([renewing])
        with contextlib.suppress(StoreError):
            # There is no "delete if it is mine"; an entry that has expired is as good as deleted.
            await store.replace(name, mine, 0.001, expected=mine)


async def _renew(store: Entries, name: str, mine: bytes) -> None:
    while True:
        await asyncio.sleep(HELD_SECONDS / 3)
        with contextlib.suppress(StoreError):
            if not await store.replace(name, mine, HELD_SECONDS, expected=mine):
                return
