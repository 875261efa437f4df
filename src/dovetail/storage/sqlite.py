"""SQLite store: one file that survives the process and that several processes can share.

One thread writes. Reads run directly on the calling thread: a reader of a write-ahead log never waits, and passing
a read to a thread costs twenty times as much as the read itself.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from . import sqlite_logs, token_bucket
from .contract import LogEntries, StoreClosed, StoreError, Subscription
from .followers import Follower, Followers
from .sqlite_file import connect, prepare
from .sqlite_writer import FORKED, WriterThread, store_error

_NEVER = float("inf")

_PRUNE_EVERY = 1.0
_MAX_PRUNED = 200


class SqliteStore:
    """Store in one file on a local disk. Times are of the wall clock, since they must survive the process.

    The file is created with the store, readable by its owner only. Acknowledged changes survive the end of the
    process; a power failure may lose the newest ones, and leaves the file intact. If `durable` is False it may damage
    the file, and no operation waits for the disk: for a file that is of no use after that.

    A store that is created before a fork can be used after it, in each process, unless it was used before.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, durable: bool = True, clock: Callable[[], float] = time.time
    ) -> None:
        self._path = os.fspath(path)
        prepare(self._path)
        self._clock = clock
        self._reader: sqlite3.Connection | None = None
        self._reading = threading.Lock()
        self._process = 0
        self._closed = False
        self._followers = Followers()
        self._poller = sqlite_logs.LogPoller(self._followers, clock)
        self._writer = WriterThread(partial(connect, self._path, durable=durable), self._prune, self._poller.check)
        self._pruned_at = clock()

    @property
    def shared(self) -> bool:
        """True: other processes may use the file."""
        return True

    @property
    def delivery_seconds(self) -> float:
        """The time until another process has checked for new entries; 0.0 if none has written lately."""
        return self._poller.delivery_seconds

    async def get(self, key: str) -> bytes | None:
        """The value of a key, or None."""
        sql = "SELECT value FROM entries WHERE key = ? AND expires > ?"
        rows = await self._query(sql, key, self._clock())
        return rows[0][0] if rows else None

    async def put(self, key: str, value: bytes, ttl: float | None = None) -> None:
        """Set the value and the time to live."""
        sql = (
            "INSERT INTO entries (key, value, expires) VALUES (?, ?, ?)"
            " ON CONFLICT (key) DO UPDATE SET value = excluded.value, expires = excluded.expires"
        )
        await self._change(sql, key, value, self._expiry(ttl))

    async def add(self, key: str, value: bytes, ttl: float | None = None) -> bool:
        """Set the value if the key does not exist."""
        sql = (
            "INSERT INTO entries (key, value, expires) VALUES (?, ?, ?) ON CONFLICT (key) DO UPDATE"
            " SET value = excluded.value, expires = excluded.expires WHERE entries.expires <= ?"
        )
        return await self._change(sql, key, value, self._expiry(ttl), self._clock()) == 1

    async def replace(self, key: str, value: bytes, ttl: float | None = None, *, expected: bytes | None = None) -> bool:
        """Set the value and the time to live if the key exists, with the expected value."""
        sql = "UPDATE entries SET value = ?, expires = ? WHERE key = ? AND expires > ? AND coalesce(value = ?, 1)"
        return await self._change(sql, value, self._expiry(ttl), key, self._clock(), expected) == 1

    async def touch(self, key: str, ttl: float | None) -> bool:
        """Set a new time to live."""
        sql = "UPDATE entries SET expires = ? WHERE key = ? AND expires > ?"
        return await self._change(sql, self._expiry(ttl), key, self._clock()) == 1

    async def delete(self, key: str) -> bool:
        """Remove a key."""
        sql = "DELETE FROM entries WHERE key = ? AND expires > ?"
        return await self._change(sql, key, self._clock()) == 1

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
        values = list(entries), self._expiry(ttl), keep, writer, close
        return await self._writer.run(self._append, self._clock(), log, *values)

    async def claim(self, log: str, writer: str, ttl: float | None = None) -> int:
        """Make a writer the only one that may append with a name."""
        return await self._writer.run(sqlite_logs.claim, self._clock(), log, writer, self._expiry(ttl))

    async def read(self, log: str, after: int, limit: int) -> list[tuple[int, bytes]]:
        """Entries after a position, oldest first."""
        sql = (
            "SELECT position, entry FROM events"
            " WHERE log = (SELECT id FROM logs WHERE name = ? AND expires > ?) AND position > ?"
            " ORDER BY position LIMIT ?"
        )
        return await self._query(sql, log, self._clock(), after, max(limit, 0))

    async def last(self, log: str) -> int:
        """The position of the newest entry, or 0."""
        rows = await self._query("SELECT last FROM logs WHERE name = ? AND expires > ?", log, self._clock())
        return rows[0][0] if rows else 0

    async def drop(self, log: str) -> bool:
        """Remove a log; its entries are freed later, a few at a time."""
        sql = "UPDATE logs SET name = NULL, expires = -1 WHERE name = ? AND expires > ?"
        return await self._change(sql, log, self._clock()) == 1

    async def follow(self, log: str, after: int, callback: Callable[[LogEntries], None]) -> Subscription:
        """Call `callback` with the entries after a position."""
        follower = Follower(self._followers, log, callback, after)
        try:
            await self._writer.run(self._poller.add, follower)
        except BaseException:
            follower.close()
            raise
        return follower

    async def join(self, group: str, member: str, ttl: float, most: int) -> bool:
        """Add a member of a group, or renew it."""
        now = self._clock()
        return await self._writer.run(_join, now, group, member, now + ttl, most)

    async def leave(self, group: str, member: str) -> bool:
        """Remove a member of a group."""
        sql = "DELETE FROM members WHERE name = ? AND member = ? AND expires > ?"
        return await self._change(sql, group, member, self._clock()) == 1

    async def oldest(self, group: str) -> tuple[str, float] | None:
        """The member that expires first, and the seconds until then."""
        sql = "SELECT member, expires FROM members WHERE name = ? AND expires > ? ORDER BY expires LIMIT 1"
        now = self._clock()
        rows = await self._query(sql, group, now)
        return (rows[0][0], rows[0][1] - now) if rows else None

    async def members(self, group: str, limit: int) -> list[str]:
        """Up to `limit` members, those that expire first."""
        sql = "SELECT member FROM members WHERE name = ? AND expires > ? ORDER BY expires LIMIT ?"
        return [member for (member,) in await self._query(sql, group, self._clock(), limit)]

    async def take(self, bucket: str, rate: float, size: float, tokens: float = 1.0) -> float:
        """Take tokens from a bucket, or return the seconds to wait."""
        return await self._writer.run(_take, self._clock(), bucket, rate, size, tokens)

    async def close(self) -> None:
        """Finish pending operations and close the file."""
        self._closed = True
        self._followers.clear()
        with self._reading:
            if self._reader is not None and self._process == os.getpid():
                self._reader.close()
                self._reader = None
        # Last, because closing the last connection cleans up the file, which takes the disk some time.
        await self._writer.close()

    def _expiry(self, ttl: float | None) -> float:
        return _NEVER if ttl is None else self._clock() + ttl

    async def _change(self, sql: str, *parameters: Any) -> int:
        """Run one statement; return the number of rows it changed."""
        return await self._writer.run(_execute, sql, parameters)

    async def _query(self, sql: str, *parameters: Any) -> list[Any]:
        """Read directly, or on the writing thread if another process locks out even readers."""
        try:
            with self._reading:
                if self._closed:
                    raise StoreClosed("The store is closed")
                if self._reader is None:
                    self._reader, self._process = connect(self._path, lock_seconds=0), os.getpid()
                elif self._process != os.getpid():
                    raise StoreError(FORKED)
                return self._reader.execute(sql, parameters).fetchall()
        except sqlite3.OperationalError:
            return await self._writer.run(_fetch, sql, parameters)
        except sqlite3.Error as problem:
            raise store_error(problem) from problem

    def _append(self, connection: sqlite3.Connection, now: float, log: str, *values: Any) -> int | None:
        self._poller.note(log)
        return sqlite_logs.append(connection, now, log, *values)

    def _prune(self, connection: sqlite3.Connection) -> None:
        """Delete some expired rows, in the transaction of the current jobs."""
        now = self._clock()
        # The wall clock may also be set back.
        if abs(now - self._pruned_at) < _PRUNE_EVERY:
            return
        freed = sqlite_logs.prune(connection, now, _MAX_PRUNED)
        for table in ("entries", "members", "buckets"):
            sql = f"DELETE FROM {table} WHERE rowid IN (SELECT rowid FROM {table} WHERE expires <= ? LIMIT ?)"
            freed = max(freed, connection.execute(sql, (now, _MAX_PRUNED)).rowcount)
        if freed < _MAX_PRUNED:
            self._pruned_at = now


def _execute(connection: sqlite3.Connection, sql: str, parameters: tuple[Any, ...]) -> int:
    return connection.execute(sql, parameters).rowcount


def _fetch(connection: sqlite3.Connection, sql: str, parameters: tuple[Any, ...]) -> list[Any]:
    return connection.execute(sql, parameters).fetchall()


def _join(connection: sqlite3.Connection, now: float, group: str, member: str, expires: float, most: int) -> bool:
    connection.execute("DELETE FROM members WHERE name = ? AND expires <= ?", (group, now))
    renewed = connection.execute("SELECT 1 FROM members WHERE name = ? AND member = ?", (group, member)).fetchone()
    (size,) = connection.execute("SELECT size FROM group_sizes WHERE name = ?", (group,)).fetchone() or (0,)
    if size - (renewed is not None) >= most:
        return False
    sql = "UPDATE members SET expires = ? WHERE name = ? AND member = ?"
    if renewed is None:
        sql = "INSERT INTO members (expires, name, member) VALUES (?, ?, ?)"
    connection.execute(sql, (expires, group, member))
    return True


def _take(connection: sqlite3.Connection, now: float, bucket: str, rate: float, size: float, tokens: float) -> float:
    (expires,) = connection.execute("SELECT expires FROM buckets WHERE name = ?", (bucket,)).fetchone() or (now,)
    full_at, wait = token_bucket.take(expires, now, rate, size, tokens)
    if not wait:
        sql = (
            "INSERT INTO buckets (name, expires) VALUES (?, ?)"
            " ON CONFLICT (name) DO UPDATE SET expires = excluded.expires"
        )
        connection.execute(sql, (bucket, full_at))
    return wait
