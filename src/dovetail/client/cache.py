"""Results that a server lets its clients keep (2026-07-28 server/utilities/caching)."""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

import msgspec

from dovetail.protocol.errors import DovetailError
from dovetail.protocol.subscriptions import covers
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
    """A result as it came, and until when it is fresh."""

    result: bytes
    until: float
    uri: str | None


class ResultCache:
    """The fresh results of one client; those longest unused go first when there are too many.

    It belongs to one connection, hence to one authorization context: private results may be kept too
    (caching, "Cache Scope Field"). The time is an argument.
    """

    def __init__(self) -> None:
        self._entries: OrderedDict[tuple[str, bytes], CachedResult] = OrderedDict()
        self._bytes = 0
        self._age: dict[str, int] = {}
        """How often something of a method was dropped: what was asked for before that is stale when it comes."""
        self._listening: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, method: str, params: Mapping[str, Any], now: float) -> dict[str, Any] | None:
        """A copy of the result, if there is a fresh one for exactly this request."""
        key = _key(method, params)
        entry = self._entries.get(key)
        if entry is None:
            return None
        if now >= entry.until:
            self._drop(key)
            return None
        self._entries.move_to_end(key)
        return _decode(entry.result)

    def age(self, method: str) -> int:
        """To be noted when a request is sent, and given to `keep` with its result."""
        return self._age.get(method, 0)

    def keep(self, method: str, params: Mapping[str, Any], result: Any, now: float, age: int) -> bool:
        """Keep a result for as long as its server says; whether it was kept."""
        seconds = _freshness(result)
        if seconds <= 0 or age != self.age(method) or "inputResponses" in params or "requestState" in params:
            return False
        key, encoded = _key(method, params), codec.encode(result)
        self._drop(key)
        if len(encoded) > MAX_BYTES:
            return False
        self._entries[key] = CachedResult(encoded, now + seconds, params.get("uri"))
        self._bytes += len(encoded)
        while len(self._entries) > MAX_ENTRIES or self._bytes > MAX_BYTES:
            self._drop(next(iter(self._entries)))
        return True

    def clear(self) -> None:
        """Keep nothing of what there is."""
        for method in {key[0] for key in self._entries}:
            self._age[method] = self.age(method) + 1
        self._entries.clear()
        self._bytes = 0

    def notified(self, method: str, params: dict[str, Any]) -> None:
        """Drop what a notification says has changed, fresh or not."""
        for stale in _CHANGES.get(method, ()):
            self._age[stale] = self.age(stale) + 1
            self._drop_all([key for key in self._entries if key[0] == stale])
        if method == _UPDATED:
            uri = params.get("uri")
            self._age["resources/read"] = self.age("resources/read") + 1
            self._drop_all([key for key, entry in self._entries.items() if _touches(uri, entry.uri)])

    def listen(self, subscribe: Callable[[], Awaitable[None]]) -> None:
        """Hear of changes while something is kept, where a client has to ask for that."""

        async def listen() -> None:
            with contextlib.suppress(DovetailError):
                await subscribe()

        if self._listening is None:
            # Once: a server that does not let itself be listened to is not asked again and again.
            self._listening = asyncio.get_running_loop().create_task(listen(), name="dovetail-cache")

    async def close(self) -> None:
        """Keep nothing, and hear no more."""
        self.clear()
        listening, self._listening = self._listening, None
        if listening is not None:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)

    def _drop_all(self, keys: list[tuple[str, bytes]]) -> None:
        for key in keys:
            self._drop(key)

    def _drop(self, key: tuple[str, bytes]) -> None:
        if (entry := self._entries.pop(key, None)) is not None:
            self._bytes -= len(entry.result)


def _key(method: str, params: Mapping[str, Any]) -> tuple[str, bytes]:
    return method, codec.encode({name: params[name] for name in sorted(params) if name != "_meta"})


def _freshness(result: Any) -> float:
    """For how many seconds a result is fresh; what is no positive number of milliseconds counts as none."""
    if not isinstance(result, dict):
        return 0.0
    fields = cast("dict[str, Any]", result)
    ttl = fields.get("ttlMs")
    complete = fields.get("resultType", "complete") == "complete"
    return ttl / 1000 if complete and isinstance(ttl, (int, float)) and ttl > 0 else 0.0


def _touches(changed: object, kept: str | None) -> bool:
    return isinstance(changed, str) and kept is not None and (covers(changed, kept) or covers(kept, changed))
