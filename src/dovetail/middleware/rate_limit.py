"""Rate limit for incoming and outgoing requests, in one process or across those that share a store."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Hashable
from hashlib import sha256
from typing import Any, TypeAlias

import msgspec

from dovetail.protocol.errors import LocalError, Timeout
from dovetail.runtime.middleware import Exchange, Proceed
from dovetail.runtime.rate_limit import TokenBuckets, rate_limit_error
from dovetail.storage.contract import Store, StoreError

logger = logging.getLogger("dovetail")

Key: TypeAlias = "Callable[[Exchange], Hashable]"

STORE_RETRY_SECONDS = 1.0
"""Seconds for which a shared limit counts in its own process after the store has failed."""


class RateLimit:
    """Allows `rate` requests per second, and `burst` at once.

    An incoming request over the limit gets an error with the time to wait. An outgoing one waits, but not longer than
    `patience` seconds. `key` groups the requests that are counted together; by default those of one principal, or
    over HTTP without authentication those of one address.

    Each process counts for itself. With `shared`, all processes that serve with the same store count together; while
    the store is unavailable, and where there is none, each counts for itself. `key` then returns a string, a number,
    or a tuple of them.
    """

    def __init__(
        self,
        rate: float,
        *,
        burst: float | None = None,
        key: Key | None = None,
        patience: float = 30.0,
        shared: bool = False,
    ) -> None:
        self._rate = rate
        self._burst = max(1.0, rate) if burst is None else burst
        self._buckets = TokenBuckets(rate, self._burst)
        self._key = key or _client
        self._patience = patience
        self._shared = shared
        self._store: tuple[Store, str] | None = None
        self._store_failed_until: float | None = None
        self._warned = False

    def use_store(self, store: Store, name: str) -> None:
        """Count in a store from now on, under a name; does nothing without `shared`."""
        if self._shared:
            self._store = store, name

    async def __call__(self, exchange: Exchange, proceed: Proceed) -> dict[str, Any]:
        """Pass a request on when the limit allows it."""
        key = self._key(exchange)
        began = time.monotonic()
        while (wait := await self._take(key) if self._shared else self._buckets.take(key, time.monotonic())) > 0:
            if exchange.way == "in":
                raise rate_limit_error("requests", wait)
            if time.monotonic() - began + wait > self._patience:
                raise Timeout(
                    f"{exchange.method} would wait longer than {self._patience:g} s for the rate limit (patience)"
                )
            await asyncio.sleep(wait)
        return await proceed(exchange)

    async def _take(self, key: Hashable) -> float:
        """Take a token from the bucket in the store, or from that of this process while there is no store to ask."""
        now = time.monotonic()
        if self._store is None:
            self._warn_once("RateLimit(shared=True) counts in this process only: no store is shared with others")
            return self._buckets.take(key, now)
        if self._store_failed_until is not None and now < self._store_failed_until:
            return self._buckets.take(key, now)
        # The bucket of this process has seen only a part of what the shared one has. If even that part is over the
        # limit, nobody needs to ask the store, which a client that does not slow down would keep busy.
        if (wait := self._buckets.wait(key, now)) > 0:
            return wait
        store, name = self._store
        try:
            wait = await store.take(f"rate:{name}:{_digest(key)}", self._rate, self._burst)
        except StoreError as problem:
            now = time.monotonic()
            self._store_failed_until = now + STORE_RETRY_SECONDS
            self._warn_once(f"A shared rate limit counts in each process until its store works again: {problem}")
            return self._buckets.take(key, now)
        if self._store_failed_until is not None:
            self._store_failed_until, self._warned = None, False
            logger.info("A shared rate limit counts in its store again")
        if not wait:
            self._buckets.take(key, now)
        return wait

    def _warn_once(self, text: str) -> None:
        if not self._warned:
            self._warned = True
            logger.warning(text)


def _client(exchange: Exchange) -> Hashable:
    return exchange.client_key


def _digest(key: Hashable) -> str:
    """A text of bounded length for a key, the same in every process."""
    try:
        encoded = msgspec.json.encode([type(key).__name__, key])
    except (TypeError, ValueError) as problem:
        expected = "a string, a number, or a tuple of them"
        raise LocalError(f"The key of a shared RateLimit must be {expected}, not {key!r}") from problem
    return sha256(encoded).hexdigest()[:32]
