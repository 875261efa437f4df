"""A store in one SQLite file, which outlives the process and which several processes may share.

Writing is done by one thread, reading at once where it is asked: a reader of a write-ahead log waits for
nobody, and a turn through a thread costs twenty times what it takes to read.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from .bus import Listener, LocalBus
from .contract import StoreClosed, StoreError, Subscription
from .sorted_names import beyond
from .sqlite_file import connect, prepare
from .sqlite_writer import FORKED, Writer

_NEVER = float("inf")

POLL = 0.04
"""Seconds between two looks for messages of other processes, while anyone listens."""

REMEMBERED = 30.0
"""Seconds that a message stays; a process that stands still for longer misses it."""

_PRUNE_EVERY = 1.0
_PRUNED_AT_ONCE = 200


class SqliteStore:
    """Keeps everything in one file on a local disk; times are those of the wall clock, for they outlive a process.

    The file is made on creation of the store, readable by its owner only. What was acknowledged survives
    the death of the process; a loss of power may take the newest of it, and leaves the file whole.
    """

    def __init__(self, path: str | os.PathLike[str], *, clock: Callable[[], float] = time.time) -> None:
        self._path = os.fspath(path)
        prepare(self._path)
        self._clock = clock
        self._reader: sqlite3.Connection | None = None
        self._reading = threading.Lock()
        self._process = 0
        self._closed = False
        self._writer = Writer(partial(connect, self._path), self._prune, self._watch)
        self._pruned = clock()
        self._bus = LocalBus()
        # Of the writing thread alone:
        self._joining: dict[Listener, None] = {}
        self._published = False
        self._seen = 0
        self._version = 0

    async def get(self, key: str) -> bytes | None:
        """The value under a key, or None."""
        sql = "SELECT value FROM entries WHERE key = ? AND expires > ?"
        rows = await self._look(sql, key, self._clock())
        return rows[0][0] if rows else None

    async def put(self, key: str, value: bytes, ttl: float | None = None) -> None:
        """Set the value and the time to live."""
        sql = (
            "INSERT INTO entries (key, value, expires) VALUES (?, ?, ?)"
            " ON CONFLICT (key) DO UPDATE SET value = excluded.value, expires = excluded.expires"
        )
        await self._change(sql, key, value, self._end(ttl))

    async def add(self, key: str, value: bytes, ttl: float | None = None) -> bool:
        """Set the value if the key is free."""
        sql = (
            "INSERT INTO entries (key, value, expires) VALUES (?, ?, ?) ON CONFLICT (key) DO UPDATE"
            " SET value = excluded.value, expires = excluded.expires WHERE entries.expires <= ?"
        )
        return await self._change(sql, key, value, self._end(ttl), self._clock()) == 1

    async def touch(self, key: str, ttl: float | None) -> bool:
        """Give a key a new time to live."""
        sql = "UPDATE entries SET expires = ? WHERE key = ? AND expires > ?"
        return await self._change(sql, self._end(ttl), key, self._clock()) == 1

    async def delete(self, key: str) -> bool:
        """Remove a key."""
        sql = "DELETE FROM entries WHERE key = ? AND expires > ?"
        return await self._change(sql, key, self._clock()) == 1

    async def count(self, prefix: str) -> int:
        """How many keys begin with the prefix."""
        sql = "SELECT count(*) FROM entries WHERE key >= ? AND key < ? AND expires > ?"
        rows = await self._look(sql, *_range(prefix), self._clock())
        return rows[0][0]

    async def keys(self, prefix: str, limit: int) -> list[str]:
        """Keys that begin with the prefix, in order."""
        sql = "SELECT key FROM entries WHERE key >= ? AND key < ? AND expires > ? ORDER BY key LIMIT ?"
        rows = await self._look(sql, *_range(prefix), self._clock(), max(limit, 0))
        return [key for (key,) in rows]

    async def append(
        self, log: str, entries: Sequence[bytes], ttl: float | None = None, keep: int | None = None
    ) -> int:
        """Add entries to a log and give the position of the last."""
        return await self._writer.run(_append, self._clock(), log, list(entries), self._end(ttl), keep)

    async def read(self, log: str, after: int, limit: int) -> list[tuple[int, bytes]]:
        """Entries behind a position, oldest first."""
        sql = (
            "SELECT position, entry FROM events"
            " WHERE log = (SELECT id FROM logs WHERE name = ? AND expires > ?) AND position > ?"
            " ORDER BY position LIMIT ?"
        )
        return await self._look(sql, log, self._clock(), after, max(limit, 0))

    async def last(self, log: str) -> int:
        """The position of the newest entry, or 0."""
        rows = await self._look("SELECT last FROM logs WHERE name = ? AND expires > ?", log, self._clock())
        return rows[0][0] if rows else 0

    async def drop(self, log: str) -> bool:
        """End a log; its entries are freed bit by bit."""
        sql = "UPDATE logs SET name = NULL, expires = -1 WHERE name = ? AND expires > ?"
        return await self._change(sql, log, self._clock()) == 1

    async def drop_prefix(self, prefix: str) -> None:
        """Remove every entry and every log whose name begins with the prefix."""
        await self._writer.run(_drop_prefix, *_range(prefix))

    async def publish(self, topic: str, message: bytes) -> None:
        """Send a message to all who listen to the topic."""
        await self._writer.run(self._publish, topic, message)

    async def subscribe(self, topic: str, callback: Callable[[bytes], None]) -> Subscription:
        """Call back with each message from now on."""
        listener = Listener(self._bus, topic, callback)
        try:
            await self._writer.run(self._join, listener)
        except BaseException:
            listener.close()
            raise
        return listener

    async def acquire(self, name: str, owner: str, ttl: float) -> bool:
        """Take a free name, or renew one's own."""
        sql = (
            "INSERT INTO leases (name, owner, expires) VALUES (?, ?, ?) ON CONFLICT (name) DO UPDATE"
            " SET owner = excluded.owner, expires = excluded.expires"
            " WHERE leases.owner = excluded.owner OR leases.expires <= ?"
        )
        now = self._clock()
        return await self._change(sql, name, owner, now + ttl, now) == 1

    async def release(self, name: str, owner: str) -> bool:
        """Give a name back that this owner holds."""
        sql = "DELETE FROM leases WHERE name = ? AND owner = ? AND expires > ?"
        return await self._change(sql, name, owner, self._clock()) == 1

    async def holder(self, name: str) -> str | None:
        """The owner who holds the name now."""
        rows = await self._look("SELECT owner FROM leases WHERE name = ? AND expires > ?", name, self._clock())
        return rows[0][0] if rows else None

    async def close(self) -> None:
        """Finish what was begun and close the file."""
        self._closed = True
        self._bus.clear()
        with self._reading:
            if self._reader is not None and self._process == os.getpid():
                self._reader.close()
                self._reader = None
        # Last, because the last connection to the file tidies it up, which takes a disk its time.
        await self._writer.close()

    def _end(self, ttl: float | None) -> float:
        return _NEVER if ttl is None else self._clock() + ttl

    async def _change(self, sql: str, *parameters: Any) -> int:
        """Run one statement and give the number of rows it changed."""
        return await self._writer.run(_execute, sql, parameters)

    async def _look(self, sql: str, *parameters: Any) -> list[Any]:
        """Read at once, or on the writing thread if another process keeps even readers out."""
        try:
            with self._reading:
                if self._closed:
                    raise StoreClosed("The store is closed")
                if self._reader is None:
                    self._reader, self._process = connect(self._path, patience=0), os.getpid()
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

    def _join(self, connection: sqlite3.Connection, listener: Listener) -> None:
        self._joining[listener] = None

    def _watch(self, connection: sqlite3.Connection) -> float | None:
        """Hand over what was published, here or elsewhere, since the last time; then let in who has joined.

        SQLite's data version changes when another connection has committed, so that an idle look costs
        a few microseconds.
        """
        if self._bus:
            (version,) = connection.execute("PRAGMA data_version").fetchone()
            if self._published or version != self._version:
                self._deliver(connection)
            self._version = version
        self._published = False
        if self._joining:
            if not self._bus:
                (self._version,) = connection.execute("PRAGMA data_version").fetchone()
                (self._seen,) = connection.execute("SELECT coalesce(max(number), 0) FROM messages").fetchone()
            while self._joining:
                self._bus.add(self._joining.popitem()[0])
        return POLL if self._bus else None

    def _deliver(self, connection: sqlite3.Connection) -> None:
        sql = "SELECT number, topic, message FROM messages WHERE number > ? ORDER BY number"
        for number, topic, message in connection.execute(sql, (self._seen,)).fetchall():
            self._seen = number
            self._bus.deliver(topic, message)

    def _prune(self, connection: sqlite3.Connection) -> None:
        """Free some of what has ended; it shares the commit of the work at hand."""
        now = self._clock()
        # A wall clock may also be set back.
        if abs(now - self._pruned) < _PRUNE_EVERY:
            return
        freed = _prune_logs(connection, now)
        for table in ("entries", "leases"):
            sql = f"DELETE FROM {table} WHERE rowid IN (SELECT rowid FROM {table} WHERE expires <= ? LIMIT ?)"
            freed = max(freed, connection.execute(sql, (now, _PRUNED_AT_ONCE)).rowcount)
        # The newest stays, since its number says which the next one gets.
        sql = (
            "DELETE FROM messages WHERE number IN (SELECT number FROM messages ORDER BY number LIMIT ?)"
            " AND sent <= ? AND number < (SELECT max(number) FROM messages)"
        )
        freed = max(freed, connection.execute(sql, (_PRUNED_AT_ONCE, now - REMEMBERED)).rowcount)
        if freed < _PRUNED_AT_ONCE:
            self._pruned = now


def _range(prefix: str) -> tuple[str, str | bytes]:
    """From where to where the names with this beginning stand; in SQLite every blob comes after every text."""
    return prefix, b"" if (end := beyond(prefix)) is None else end


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
        # A log of this name that has ended may still be there; the new one is another log.
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
    """Free entries of logs that have ended, and the logs that have none left."""
    left = _PRUNED_AT_ONCE
    ended = connection.execute("SELECT id FROM logs WHERE expires <= ? LIMIT ?", (now, left)).fetchall()
    for (log,) in ended:
        left -= connection.execute(
            "DELETE FROM events WHERE log = ? AND position IN"
            " (SELECT position FROM events WHERE log = ? ORDER BY position LIMIT ?)",
            (log, log, left),
        ).rowcount
        if left <= 0:
            return _PRUNED_AT_ONCE
        connection.execute("DELETE FROM logs WHERE id = ?", (log,))
        left -= 1
    return _PRUNED_AT_ONCE - left
