"""In-memory store: no setup, not shared between processes, lost when the process ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from .bus import LocalBus, TopicSubscriber
from .contract import StoreClosed, Subscription
from .ttl_table import NEVER, TtlTable

_MAX_FREED = 100
"""Expired items that one operation frees at most: more than it can add, and too few for a noticeable pause."""


class _Log:
    __slots__ = ("entries", "last")

    def __init__(self) -> None:
        self.last = 0
        self.entries: list[bytes] = []


class MemoryStore:
    """Store in dictionaries; no operation waits, and any thread and event loop may use it."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._entries: TtlTable[bytes] = TtlTable()
        self._logs: TtlTable[_Log] = TtlTable()
        self._leases: TtlTable[str] = TtlTable()
        self._bus = LocalBus()
        self._closed = False

    async def get(self, key: str) -> bytes | None:
        """The value of a key, or None."""
        with self._lock:
            return self._entries.get(key, self._now())

    async def put(self, key: str, value: bytes, ttl: float | None = None) -> None:
        """Set the value and the time to live."""
        with self._lock:
            self._entries.set(key, value, _expiry(self._now(), ttl))

    async def add(self, key: str, value: bytes, ttl: float | None = None) -> bool:
        """Set the value if the key does not exist."""
        with self._lock:
            now = self._now()
            if self._entries.get(key, now) is not None:
                return False
            self._entries.set(key, value, _expiry(now, ttl))
            return True

    async def touch(self, key: str, ttl: float | None) -> bool:
        """Set a new time to live."""
        with self._lock:
            now = self._now()
            return self._entries.renew(key, _expiry(now, ttl), now)

    async def delete(self, key: str) -> bool:
        """Remove a key."""
        with self._lock:
            return self._entries.pop(key, self._now()) is not None

    async def count(self, prefix: str) -> int:
        """The number of keys with a prefix."""
        with self._lock:
            return self._entries.count(prefix, self._now())

    async def keys(self, prefix: str, limit: int) -> list[str]:
        """Keys with a prefix, sorted."""
        with self._lock:
            return self._entries.with_prefix(prefix, self._now(), limit)

    async def append(
        self, log: str, entries: Sequence[bytes], ttl: float | None = None, keep: int | None = None
    ) -> int:
        """Append entries to a log; return the position of the last."""
        with self._lock:
            now = self._now()
            entry_log = self._logs.get(log, now)
            if entry_log is None:
                if not entries:
                    return 0
                entry_log = _Log()
            entry_log.entries += entries
            entry_log.last += len(entries)
            if keep is not None and len(entry_log.entries) > keep:
                del entry_log.entries[:-keep]
            self._logs.set(log, entry_log, _expiry(now, ttl))
            return entry_log.last

    async def read(self, log: str, after: int, limit: int) -> list[tuple[int, bytes]]:
        """Entries after a position, oldest first."""
        with self._lock:
            entry_log = self._logs.get(log, self._now())
            if entry_log is None:
                return []
            discarded = entry_log.last - len(entry_log.entries)
            start = max(after, discarded)
            stop = start + max(limit, 0)
            return list(enumerate(entry_log.entries[start - discarded : stop - discarded], start + 1))

    async def last(self, log: str) -> int:
        """The position of the newest entry, or 0."""
        with self._lock:
            entry_log = self._logs.get(log, self._now())
            return 0 if entry_log is None else entry_log.last

    async def drop(self, log: str) -> bool:
        """Remove a log."""
        with self._lock:
            return self._logs.pop(log, self._now()) is not None

    async def drop_prefix(self, prefix: str) -> None:
        """Remove all entries and logs whose names have a prefix."""
        with self._lock:
            now = self._now()
            for table in (self._entries, self._logs):
                for name in table.with_prefix(prefix, now):
                    table.pop(name, now)

    async def publish(self, topic: str, message: bytes) -> None:
        """Send a message to all subscribers of a topic."""
        self._check_open()
        self._bus.deliver(topic, message)

    async def subscribe(self, topic: str, callback: Callable[[bytes], None]) -> Subscription:
        """Call `callback` with each message from now on."""
        self._check_open()
        subscriber = TopicSubscriber(self._bus, topic, callback)
        self._bus.add(subscriber)
        return subscriber

    async def acquire(self, name: str, owner: str, ttl: float) -> bool:
        """Acquire a free name, or renew the owner's own lease."""
        with self._lock:
            now = self._now()
            if self._leases.get(name, now) not in {None, owner}:
                return False
            self._leases.set(name, owner, now + ttl)
            return True

    async def release(self, name: str, owner: str) -> bool:
        """Release a name that this owner holds."""
        with self._lock:
            now = self._now()
            return self._leases.get(name, now) == owner and self._leases.pop(name, now) is not None

    async def holder(self, name: str) -> str | None:
        """The current owner of a name, or None."""
        with self._lock:
            return self._leases.get(name, self._now())

    async def close(self) -> None:
        """Drop all contents and subscriptions."""
        with self._lock:
            self._closed = True
            self._entries, self._logs, self._leases = TtlTable(), TtlTable(), TtlTable()
        self._bus.clear()

    def _check_open(self) -> None:
        if self._closed:
            raise StoreClosed("The store is closed")

    def _now(self) -> float:
        """The time for an operation; also frees some of the expired items."""
        self._check_open()
        now = self._clock()
        self._entries.sweep(now, _MAX_FREED)
        self._logs.sweep(now, _MAX_FREED)
        self._leases.sweep(now, _MAX_FREED)
        return now


def _expiry(now: float, ttl: float | None) -> float:
    return NEVER if ttl is None else now + ttl
