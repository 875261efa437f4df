"""Rate limit for incoming and outgoing requests."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Hashable
from typing import Any, TypeAlias

from dovetail.protocol.errors import Timeout
from dovetail.runtime.middleware import Exchange, Proceed
from dovetail.runtime.rate_limit import TokenBuckets, rate_limit_error

Key: TypeAlias = "Callable[[Exchange], Hashable]"


class RateLimit:
    """Allows `rate` requests per second, and `burst` at once.

    An incoming request over the limit gets an error with the time to wait. An outgoing one waits, but not longer than
    `patience` seconds. `key` groups the requests that are counted together; by default those of one principal.
    """

    def __init__(
        self, rate: float, *, burst: float | None = None, key: Key | None = None, patience: float = 30.0
    ) -> None:
        self._buckets = TokenBuckets(rate, max(1.0, rate) if burst is None else burst)
        self._key = key or _principal
        self._patience = patience

    async def __call__(self, exchange: Exchange, proceed: Proceed) -> dict[str, Any]:
        """Pass a request on when the limit allows it."""
        key = self._key(exchange)
        began = time.monotonic()
        while (wait := self._buckets.take(key, time.monotonic())) > 0:
            if exchange.way == "in":
                raise rate_limit_error("requests", wait)
            if time.monotonic() - began + wait > self._patience:
                raise Timeout(
                    f"{exchange.method} would wait longer than {self._patience:g} s for the rate limit (patience)"
                )
            await asyncio.sleep(wait)
        return await proceed(exchange)


def _principal(exchange: Exchange) -> Hashable:
    return exchange.principal
