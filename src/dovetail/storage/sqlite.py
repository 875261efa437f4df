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

from .bus import LocalBus, TopicSubscriber
from .contract import StoreClosed, StoreError, Subscription
from .sorted_names import prefix_end
from .sqlite_file import connect, prepare
from .sqlite_writer import FORKED, WriterThread

_NEVER = float("inf")

POLL = 0.04
"""Seconds between two checks for messages of other processes, while there are subscribers."""

MESSAGE_SECONDS = 30.0
"""Seconds for which a message is kept; a process that is suspended for longer misses it."""

_PRUNE_EVERY = 1.0
_MAX_PRUNED = 200


class SqliteStore:
    """Store in one file on a local disk. Times are of the wall clock, since they must survive the process.

    The file is created with the store, readable by its owner only. Acknowledged changes survive the end of the
    process; a power failure may lose the newest ones, and leaves the file intact.
    """

    def __init__(self, path: str | os.PathLike[str], *, clock: Callable[[], float] = time.time) -> None:
        self._path = os.fspath(path)
        prepare(self._path)
        self._clock = clock
        self._reader: sqlite3.Connection | None = None
        self._reading = threading.Lock()
        self._process = 0
        self._closed = False
        self._writer = WriterThread(partial(connect, self._path), self._prune, self._deliver_new)
        self._pruned_at = clock()
        self._bus = LocalBus()
        # Used by the writing thread only:
        self._new_subscribers: dict[TopicSubscriber, None] = {}
        self._published = False
        self._last_delivered = 0
        self._data_version = 0

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

    async def touch(self, key: str, ttl: float | None) -> bool:
        """Set a new time to live."""
        sql = "UPDATE entries SET expires = ? WHERE key = ? AND expires > ?"
        return await self._change(sql, self._expiry(ttl), key, self._clock()) == 1

    async def delete(self, key: str) -> bool:
        """Remove a key."""
        sql = "DELETE FROM entries WHERE key = ? AND expires > ?"
        return await self._change(sql, key, self._clock()) == 1

    async def count(self, prefix: str) -> int:
        """The number of keys with a prefix."""
        sql = "SELECT count(*) FROM entries WHERE key >= ? AND key < ? AND expires > ?"
        rows = await self._query(sql, *_range(prefix), self._clock())
        return rows[0][0]

    async def keys(self, prefix: str, limit: int) -> list[str]:
        """Keys with a prefix, sorted."""
        sql = "SELECT key FROM entries WHERE key >= ? AND key < ? AND expires > ? ORDER BY key LIMIT ?"
        rows = await self._query(sql, *_range(prefix), self._clock(), max(limit, 0))
        return [key for (key,) in rows]

    async def append(
        self, log: str, entries: Sequence[bytes], ttl: float | None = None, keep: int | None = None
    ) -> int:
        """Append entries to a log; return the position of the last."""
        return await self._writer.run(_append, self._clock(), log, list(entries), self._expiry(ttl), keep)

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

    async def drop_prefix(self, prefix: str) -> None:
        """Remove all entries and logs whose names have a prefix."""
        await self._writer.run(_drop_prefix, *_range(prefix))

    async def publish(self, topic: str, message: bytes) -> None:
        """Send a message to all subscribers of a topic."""
        await self._writer.run(self._publish, topic, message)

    async def subscribe(self, topic: str, callback: Callable[[bytes], None]) -> Subscription:
        """Call `callback` with each message from now on."""
        subscriber = TopicSubscriber(self._bus, topic, callback)
        try:
            await self._writer.run(self._add_subscriber, subscriber)
        except BaseException:
            subscriber.close()
            raise
        return subscriber

    async def acquire(self, name: str, owner: str, ttl: float) -> bool:
        """Acquire a free name, or renew the owner's own lease."""
        sql = (
            "INSERT INTO leases (name, owner, expires) VALUES (?, ?, ?) ON CONFLICT (name) DO UPDATE"
            " SET owner = excluded.owner, expires = excluded.expires"
            " WHERE leases.owner = excluded.owner OR leases.expires <= ?"
        )
        now = self._clock()
        return await self._change(sql, name, owner, now + ttl, now) == 1

    async def release(self, name: str, owner: str) -> bool:
        """Release a name that this owner holds."""
        sql = "DELETE FROM leases WHERE name = ? AND owner = ? AND expires > ?"
        return await self._change(sql, name, owner, self._clock()) == 1

    async def holder(self, name: str) -> str | None:
        """The current owner of a name, or None."""
        rows = await self._query("SELECT owner FROM leases WHERE name = ? AND expires > ?", name, self._clock())
        return rows[0][0] if rows else None

    async def close(self) -> None:
        """Finish pending operations and close the file."""
        self._closed = True
        self._bus.clear()
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
            raise StoreError(f"The store failed: {problem}") from problem

    def _publish(self, connection: sqlite3.Connection, topic: str, message: bytes) -> None:
        sql = "INSERT INTO messages (topic, message, sent) VALUES (?, ?, ?)"
        connection.execute(sql, (topic, message, self._clock()))
        self._published = True

    def _add_subscriber(self, connection: sqlite3.Connection, subscriber: TopicSubscriber) -> None:
        self._new_subscribers[subscriber] = None

    def _deliver_new(self, connection: sqlite3.Connection) -> float | None:
        """Deliver the messages published since the last time, in any process; then add the new subscribers.

        Returns the seconds until the next check. SQLite's data version changes when another connection has committed,
        so that a check without news costs a few microseconds.
        """
        if self._bus:
            (version,) = connection.execute("PRAGMA data_version").fetchone()
            if self._published or version != self._data_version:
                self._deliver(connection)
            self._data_version = version
        self._published = False
        if self._new_subscribers:
            if not self._bus:
                (self._data_version,) = connection.execute("PRAGMA data_version").fetchone()
                (self._last_delivered,) = connection.execute("SELECT coalesce(max(number), 0) FROM messages").fetchone()
            while self._new_subscribers:
                self._bus.add(self._new_subscribers.popitem()[0])
        return POLL if self._bus else None

    def _deliver(self, connection: sqlite3.Connection) -> None:
        sql = "SELECT number, topic, message FROM messages WHERE number > ? ORDER BY number"
        for number, topic, message in connection.execute(sql, (self._last_delivered,)).fetchall():
            self._last_delivered = number
            self._bus.deliver(topic, message)

    def _prune(self, connection: sqlite3.Connection) -> None:
        """Delete some expired rows, in the transaction of the current jobs."""
        now = self._clock()
        # The wall clock may also be set back.
        if abs(now - self._pruned_at) < _PRUNE_EVERY:
            return
        freed = _prune_logs(connection, now)
        for table in ("entries", "leases"):
            sql = f"DELETE FROM {table} WHERE rowid IN (SELECT rowid FROM {table} WHERE expires <= ? LIMIT ?)"
            freed = max(freed, connection.execute(sql, (now, _MAX_PRUNED)).rowcount)
        # The newest message stays, since its number determines the next one.
        sql = (
            "DELETE FROM messages WHERE number IN (SELECT number FROM messages ORDER BY number LIMIT ?)"
            " AND sent <= ? AND number < (SELECT max(number) FROM messages)"
        )
        freed = max(freed, connection.execute(sql, (_MAX_PRUNED, now - MESSAGE_SECONDS)).rowcount)
        if freed < _MAX_PRUNED:
            self._pruned_at = now


def _range(prefix: str) -> tuple[str, str | bytes]:
    """The range of names with a prefix; in SQLite, every blob sorts after every text."""
    return prefix, b"" if (end := prefix_end(prefix)) is None else end


def _execute(connection: sqlite3.Connection, sql: str, parameters: tuple[Any, ...]) -> int:
    return connection.execute(sql, parameters).rowcount


def _fetch(connection: sqlite3.Connection, sql: str, parameters: tuple[Any, ...]) -> list[Any]:
    return connection.execute(sql, parameters).fetchall()


def _append(
    connection: sqlite3.Connection, now: float, log: str, entries: list[bytes], expires: float, keep: int | None
) -> int:
    rows = connection.execute("SELECT id, last FROM logs WHERE name = ? AND expires > ?", (log, now)).fetchall()
    if not rows and not entries:
        return 0
    if rows:
        number, last = rows[0]
    else:
        # An expired log of this name may still exist; the new one is another log.
        connection.execute("UPDATE logs SET name = NULL, expires = -1 WHERE name = ?", (log,))
        number, last = (
            connection.execute("INSERT INTO logs (name, last, expires) VALUES (?, 0, ?)", (log, expires)).lastrowid,
            0,
        )
    first, last = last + 1, last + len(entries)
    connection.executemany(
        "INSERT INTO events (log, position, entry) VALUES (?, ?, ?)",
        [(number, position, entry) for position, entry in enumerate(entries, first)],
    )
    connection.execute("UPDATE logs SET last = ?, expires = ? WHERE id = ?", (last, expires, number))
    if keep is not None:
        connection.execute("DELETE FROM events WHERE log = ? AND position <= ?", (number, last - keep))
    return last


def _drop_prefix(connection: sqlite3.Connection, start: str, end: str | bytes) -> None:
    connection.execute("DELETE FROM entries WHERE key >= ? AND key < ?", (start, end))
    connection.execute("UPDATE logs SET name = NULL, expires = -1 WHERE name >= ? AND name < ?", (start, end))


def _prune_logs(connection: sqlite3.Connection, now: float) -> int:
    """Delete entries of expired logs, and the logs that have none left."""
    left = _MAX_PRUNED
    ended = connection.execute("SELECT id FROM logs WHERE expires <= ? LIMIT ?", (now, left)).fetchall()
    for (log,) in ended:
        left -= connection.execute(
            "DELETE FROM events WHERE log = ? AND position IN"
            " (SELECT position FROM events WHERE log = ? ORDER BY position LIMIT ?)",
            (log, log, left),
        ).rowcount
        if left <= 0:
            return _MAX_PRUNED
        connection.execute("DELETE FROM logs WHERE id = ?", (log,))
        left -= 1
    return _MAX_PRUNED - left
