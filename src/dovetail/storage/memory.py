"""A store within this process: nothing to set up, and gone with the process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from .bus import Listener, LocalBus
from .contract import StoreClosed, Subscription
from .ttl_table import NEVER, Expiring

_FREED_AT_ONCE = 100
"""What one operation frees at most: more than it can add, so that what has ended is freed, and never a pause."""


class _Log:
    __slots__ = ("entries", "last")

    def __init__(self) -> None:
        self.last = 0
        self.entries: list[bytes] = []


class MemoryStore:
    """Keeps everything in dictionaries; no operation waits, and any thread and loop may call it."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._entries: Expiring[bytes] = Expiring()
        self._logs: Expiring[_Log] = Expiring()
        self._leases: Expiring[str] = Expiring()
        self._bus = LocalBus()
        self._closed = False

    async def get(self, key: str) -> bytes | None:
        """The value under a key, or None."""
        with self._lock:
            return self._entries.get(key, self._now())

    async def put(self, key: str, value: bytes, ttl: float | None = None) -> None:
        """Set the value and the time to live."""
        with self._lock:
            self._entries.set(key, value, _end(self._now(), ttl))

    async def add(self, key: str, value: bytes, ttl: float | None = None) -> bool:
        """Set the value if the key is free."""
        with self._lock:
            now = self._now()
            if self._entries.get(key, now) is not None:
                return False
            self._entries.set(key, value, _end(now, ttl))
            return True

    async def touch(self, key: str, ttl: float | None) -> bool:
        """Give a key a new time to live."""
        with self._lock:
            now = self._now()
            return self._entries.renew(key, _end(now, ttl), now)

    async def delete(self, key: str) -> bool:
        """Remove a key."""
        with self._lock:
            return self._entries.pop(key, self._now()) is not None

    async def count(self, prefix: str) -> int:
        """How many keys begin with the prefix."""
        with self._lock:
            return self._entries.count(prefix, self._now())

    async def keys(self, prefix: str, limit: int) -> list[str]:
        """Keys that begin with the prefix, in order."""
        with self._lock:
            return self._entries.beginning(prefix, self._now(), limit)

    async def append(
        self, log: str, entries: Sequence[bytes], ttl: float | None = None, keep: int | None = None
    ) -> int:
        """Add entries to a log and give the position of the last."""
        with self._lock:
            now = self._now()
            found = self._logs.get(log, now)
            if found is None:
                if not entries:
                    return 0
                found = _Log()
            found.entries += entries
            found.last += len(entries)
            if keep is not None and len(found.entries) > keep:
                del found.entries[:-keep]
            self._logs.set(log, found, _end(now, ttl))
            return found.last

    async def read(self, log: str, after: int, limit: int) -> list[tuple[int, bytes]]:
        """Entries behind a position, oldest first."""
        with self._lock:
            found = self._logs.get(log, self._now())
            if found is None:
                return []
            gone = found.last - len(found.entries)
            start = max(after, gone)
            stop = start + max(limit, 0)
            return list(enumerate(found.entries[start - gone : stop - gone], start + 1))

    async def last(self, log: str) -> int:
        """The position of the newest entry, or 0."""
        with self._lock:
            found = self._logs.get(log, self._now())
            return 0 if found is None else found.last

    async def drop(self, log: str) -> bool:
        """End a log."""
        with self._lock:
            return self._logs.pop(log, self._now()) is not None

    async def drop_prefix(self, prefix: str) -> None:
        """Remove every entry and every log whose name begins with the prefix."""
        with self._lock:
            now = self._now()
            for table in (self._entries, self._logs):
                for name in table.beginning(prefix, now):
                    table.pop(name, now)

    async def publish(self, topic: str, message: bytes) -> None:
        """Send a message to all who listen to the topic."""
        self._check()
        self._bus.deliver(topic, message)

    async def subscribe(self, topic: str, callback: Callable[[bytes], None]) -> Subscription:
        """Call back with each message from now on."""
        self._check()
        listener = Listener(self._bus, topic, callback)
        self._bus.add(listener)
        return listener

    async def acquire(self, name: str, owner: str, ttl: float) -> bool:
        """Take a free name, or renew one's own."""
        with self._lock:
            now = self._now()
            if self._leases.get(name, now) not in {None, owner}:
                return False
            self._leases.set(name, owner, now + ttl)
            return True

    async def release(self, name: str, owner: str) -> bool:
        """Give a name back that this owner holds."""
        with self._lock:
            now = self._now()
            return self._leases.get(name, now) == owner and self._leases.pop(name, now) is not None

    async def holder(self, name: str) -> str | None:
        """The owner who holds the name now."""
        with self._lock:
            return self._leases.get(name, self._now())

    async def close(self) -> None:
        """Forget everything."""
        with self._lock:
            self._closed = True
            self._entries, self._logs, self._leases = Expiring(), Expiring(), Expiring()
        self._bus.clear()

    def _check(self) -> None:
        if self._closed:
            raise StoreClosed("The store is closed")

    def _now(self) -> float:
        """The time of an operation that begins; it also frees some of what has ended."""
        self._check()
        now = self._clock()
        self._entries.sweep(now, _FREED_AT_ONCE)
        self._logs.sweep(now, _FREED_AT_ONCE)
        self._leases.sweep(now, _FREED_AT_ONCE)
        return now


def _end(now: float, ttl: float | None) -> float:
    return NEVER if ttl is None else now + ttl
