"""In-memory store: no setup, not shared between processes, lost when the process ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from . import token_bucket
from .contract import LogEntries, StoreClosed, Subscription
from .followers import Follower, Followers
from .ttl_table import NEVER, TtlTable

_MAX_FREED = 100
"""Expired items that one operation frees at most: more than it can add, and too few for a noticeable pause."""


class _Log:
    __slots__ = ("closed", "entries", "last", "writer")

    def __init__(self) -> None:
        self.last = 0
        self.entries: list[bytes] = []
        self.writer: str | None = None
        self.closed = False

    def after(self, position: int, limit: int) -> list[tuple[int, bytes]]:
        discarded = self.last - len(self.entries)
        start = max(position, discarded)
        stop = start + max(limit, 0)
        return list(enumerate(self.entries[start - discarded : stop - discarded], start + 1))


class _Group:
    __slots__ = ("expires", "members")

    def __init__(self) -> None:
        self.members: TtlTable[bool] = TtlTable()
        self.expires = 0.0
        """The time after which no member is left."""


class MemoryStore:
    """Store in dictionaries; no operation waits, and any thread and event loop may use it."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._entries: TtlTable[bytes] = TtlTable()
        self._logs: TtlTable[_Log] = TtlTable()
        self._groups: TtlTable[_Group] = TtlTable()
        self._buckets: TtlTable[float] = TtlTable()
        self._followers = Followers()
        self._closed = False

    @property
    def shared(self) -> bool:
        """False: the contents are in this process."""
        return False

    @property
    def delivery_seconds(self) -> float:
        """None: all followers are in this process."""
        return 0.0

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

    async def replace(self, key: str, value: bytes, ttl: float | None = None, *, expected: bytes | None = None) -> bool:
        """Set the value and the time to live if the key exists, with the expected value."""
        with self._lock:
            now = self._now()
            current = self._entries.get(key, now)
            if current is None or (expected is not None and current != expected):
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

    async def append(
        self,
        log: str,
        entries: Sequence[bytes],
        ttl: float | None = None,
        keep: int | None = None,
        *,
        writer: str | None = None,
        close: bool = False,
    ) -> int | None:
        """Append entries to a log; return the position of the last."""
        with self._lock:
            now = self._now()
            entry_log = self._logs.get(log, now)
            if entry_log is None:
                if not entries:
                    return 0
                entry_log = _Log()
            elif entry_log.closed or (writer is not None and entry_log.writer not in {None, writer}):
                return None
            first = entry_log.last + 1
            entry_log.entries += entries
            entry_log.last += len(entries)
            entry_log.closed = close
            if keep is not None and len(entry_log.entries) > keep:
                del entry_log.entries[:-keep]
            self._logs.set(log, entry_log, _expiry(now, ttl))
            if entries:
                for follower in self._followers.of(log):
                    follower.send(list(enumerate(entries, first)))
            return entry_log.last

    async def claim(self, log: str, writer: str, ttl: float | None = None) -> int:
        """Make a writer the only one that may append with a name."""
        with self._lock:
            now = self._now()
            entry_log = self._logs.get(log, now) or _Log()
            if not entry_log.closed:
                entry_log.writer = writer
                self._logs.set(log, entry_log, _expiry(now, ttl))
            return entry_log.last

    async def read(self, log: str, after: int, limit: int) -> list[tuple[int, bytes]]:
        """Entries after a position, oldest first."""
        with self._lock:
            entry_log = self._logs.get(log, self._now())
            return [] if entry_log is None else entry_log.after(after, limit)

    async def last(self, log: str) -> int:
        """The position of the newest entry, or 0."""
        with self._lock:
            entry_log = self._logs.get(log, self._now())
            return 0 if entry_log is None else entry_log.last

    async def drop(self, log: str) -> bool:
        """Remove a log."""
        with self._lock:
            return self._logs.pop(log, self._now()) is not None

    async def follow(self, log: str, after: int, callback: Callable[[LogEntries], None]) -> Subscription:
        """Call `callback` with the entries after a position."""
        follower = Follower(self._followers, log, callback)
        with self._lock:
            entry_log = self._logs.get(log, self._now())
            if entry_log is not None:
                # A position beyond the end is of a log that is gone; this one began after it.
                entries = entry_log.after(after if after <= entry_log.last else 0, entry_log.last)
                if entries:
                    follower.send(entries)
            self._followers.add(follower)
        return follower

    async def join(self, group: str, member: str, ttl: float, most: int) -> bool:
        """Add a member of a group, or renew it."""
        with self._lock:
            now = self._now()
            joined = self._groups.get(group, now) or _Group()
            joined.members.sweep(now)
            others = len(joined.members) - (joined.members.get(member, now) is not None)
            if others >= most:
                return False
            joined.members.set(member, True, now + ttl)
            joined.expires = max(joined.expires, now + ttl)
            self._groups.set(group, joined, joined.expires)
            return True

    async def leave(self, group: str, member: str) -> bool:
        """Remove a member of a group."""
        with self._lock:
            now = self._now()
            left = self._groups.get(group, now)
            if left is None or left.members.pop(member, now) is None:
                return False
            if not len(left.members):
                self._groups.pop(group, now)
            return True

    async def oldest(self, group: str) -> tuple[str, float] | None:
        """The member that expires first, and the seconds until then."""
        with self._lock:
            now = self._now()
            found = self._groups.get(group, now)
            first = None if found is None else found.members.first(now)
            return None if first is None else (first[0], first[1] - now)

    async def members(self, group: str, limit: int) -> list[str]:
        """Up to `limit` members, those that expire first."""
        with self._lock:
            now = self._now()
            found = self._groups.get(group, now)
            return [] if found is None else found.members.names(now, limit)

    async def take(self, bucket: str, rate: float, size: float, tokens: float = 1.0) -> float:
        """Take tokens from a bucket, or return the seconds to wait."""
        with self._lock:
            now = self._now()
            full_at, wait = token_bucket.take(self._buckets.get(bucket, now) or now, now, rate, size, tokens)
            if not wait:
                self._buckets.set(bucket, full_at, full_at)
            return wait

    async def close(self) -> None:
        """Drop all contents and subscriptions."""
        with self._lock:
            self._closed = True
            self._entries, self._logs, self._groups, self._buckets = TtlTable(), TtlTable(), TtlTable(), TtlTable()
        self._followers.clear()

    def _now(self) -> float:
        """The time for an operation; also frees some of the expired items."""
        if self._closed:
            raise StoreClosed("The store is closed")
        now = self._clock()
        self._entries.sweep(now, _MAX_FREED)
        self._logs.sweep(now, _MAX_FREED)
        self._groups.sweep(now, _MAX_FREED)
        self._buckets.sweep(now, _MAX_FREED)
        return now


def _expiry(now: float, ttl: float | None) -> float:
    return NEVER if ttl is None else now + ttl
