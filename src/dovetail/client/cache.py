"""Cache of the results that a server lets its clients keep (2026-07-28 server/utilities/caching)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

import msgspec

from dovetail.protocol.errors import DovetailError
from dovetail.protocol.subscriptions import covers
from dovetail.types.bounded_dict import BoundedDict
from dovetail.wire import codec

MAX_ENTRIES = 1000
MAX_BYTES = 16_000_000

_CHANGES = {
    "notifications/tools/list_changed": ("tools/list",),
    "notifications/prompts/list_changed": ("prompts/list",),
    "notifications/resources/list_changed": ("resources/list", "resources/templates/list"),
}
_UPDATED = "notifications/resources/updated"
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class CachedResult(msgspec.Struct, frozen=True):
    """A result as JSON, with the time at which it expires."""

    result: bytes
    expires_at: float
    uri: str | None


class ResultCache:
    """The fresh results of one client; the least recently used are evicted first.

    It belongs to one connection, hence to one authorization context: private results may be kept too
    (caching, "Cache Scope Field"). The time is an argument.
    """

    def __init__(self) -> None:
        self._results = BoundedDict[tuple[str, bytes], CachedResult](MAX_ENTRIES, self._evicted)
        self._bytes = 0
        self._generations: dict[str, int] = {}
        """By method: how often results were dropped. A result that was requested before that is stale when it comes."""
        self._subscription: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._results)

    def get(self, method: str, params: Mapping[str, Any], now: float) -> dict[str, Any] | None:
        """A copy of the result, if there is a fresh one for exactly this request."""
        key = _key(method, params)
        entry = self._results.get(key)
        if entry is None:
            return None
        if now >= entry.expires_at:
            self._drop(key)
            return None
        self._results.move_to_end(key)
        return _decode(entry.result)

    def generation(self, method: str) -> int:
        """The current generation; to be read before a request is sent, and given to `store` with its result."""
        return self._generations.get(method, 0)

    def store(self, method: str, params: Mapping[str, Any], result: Any, now: float, generation: int) -> bool:
        """Keep a result for as long as its server says; True if it was kept."""
        seconds = _freshness(result)
        if (
            seconds <= 0
            or generation != self.generation(method)
            or "inputResponses" in params
            or "requestState" in params
        ):
            return False
        key, encoded = _key(method, params), codec.encode(result)
        self._drop(key)
        if len(encoded) > MAX_BYTES:
            return False
        self._results[key] = CachedResult(encoded, now + seconds, params.get("uri"))
        self._bytes += len(encoded)
        while self._bytes > MAX_BYTES:
            self._drop(next(iter(self._results)))
        return True

    def clear(self) -> None:
        """Drop all results."""
        for method in {key[0] for key in self._results}:
            self._generations[method] = self.generation(method) + 1
        self._results.clear()
        self._bytes = 0

    def notified(self, method: str, params: dict[str, Any]) -> None:
        """Drop the results that a notification says have changed."""
        for stale in _CHANGES.get(method, ()):
            self._generations[stale] = self.generation(stale) + 1
            self._drop_all([key for key in self._results if key[0] == stale])
        if method == _UPDATED:
            uri = params.get("uri")
            self._generations["resources/read"] = self.generation("resources/read") + 1
            self._drop_all([key for key, entry in self._results.items() if _touches(uri, entry.uri)])

    def subscribe_once(self, subscribe: Callable[[], Awaitable[None]]) -> None:
        """Subscribe to changes in a task of the cache's own, unless that was done."""

        async def run() -> None:
            with contextlib.suppress(DovetailError):
                await subscribe()

        if self._subscription is None:
            # Once: a server that refuses the subscription is not asked again and again.
            self._subscription = asyncio.get_running_loop().create_task(run(), name="dovetail-cache")

    async def close(self) -> None:
        """Drop all results and end the subscription."""
        self.clear()
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            subscription.cancel()
            await asyncio.gather(subscription, return_exceptions=True)

    def _drop_all(self, keys: list[tuple[str, bytes]]) -> None:
        for key in keys:
            self._drop(key)

    def _drop(self, key: tuple[str, bytes]) -> None:
        if (entry := self._results.pop(key, None)) is not None:
            self._bytes -= len(entry.result)

    def _evicted(self, key: tuple[str, bytes], entry: CachedResult) -> None:
        self._bytes -= len(entry.result)


def _key(method: str, params: Mapping[str, Any]) -> tuple[str, bytes]:
    return method, codec.encode({name: params[name] for name in sorted(params) if name != "_meta"})


def _freshness(result: Any) -> float:
    """The seconds for which a result is fresh; 0 where it gives no positive number of milliseconds."""
    if not isinstance(result, dict):
        return 0.0
    fields = cast("dict[str, Any]", result)
    ttl = fields.get("ttlMs")
    complete = fields.get("resultType", "complete") == "complete"
    return ttl / 1000 if complete and isinstance(ttl, (int, float)) and ttl > 0 else 0.0


def _touches(changed: object, kept: str | None) -> bool:
    return isinstance(changed, str) and kept is not None and (covers(changed, kept) or covers(kept, changed))
