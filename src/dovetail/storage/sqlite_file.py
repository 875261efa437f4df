"""The file of an SQLite store: creation, identification, connections."""

from __future__ import annotations

import os
import sqlite3
import time

from .contract import StoreUnavailable, StoreUnusable

APPLICATION = 0x44_6F_76_74  # "Dovt", in the application id of the SQLite file
VERSION = 2
LOCK_SECONDS = 5.0
"""Seconds that the creation of a store waits for another process that is writing."""

JOB_LOCK_SECONDS = 0.8
"""Seconds that an operation waits for another process that is writing."""

BUSY_LOCK_SECONDS = 0.1
"""The same, after an operation has waited in vain and until one succeeds: those behind it would add up the time."""

_ENTRIES = (
    "CREATE TABLE entries (key TEXT NOT NULL UNIQUE, value BLOB NOT NULL, expires REAL NOT NULL)",
    "CREATE INDEX entries_by_end ON entries (expires)",
    "CREATE TABLE events (log INTEGER NOT NULL, position INTEGER NOT NULL, entry BLOB NOT NULL,"
    " PRIMARY KEY (log, position)) WITHOUT ROWID",
)

# A dropped log has no name and is expired: its events are deleted with those of other expired logs.
# No id is used twice, so that a follower notices that a log has begun again.
_LOGS = (
    "CREATE TABLE logs (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE, last INTEGER NOT NULL,"
    " expires REAL NOT NULL, writer TEXT, closed INTEGER NOT NULL DEFAULT FALSE)",
)

_SINCE_2 = (
    "CREATE INDEX logs_by_end ON logs (expires)",
    "CREATE TABLE members (name TEXT NOT NULL, member TEXT NOT NULL, expires REAL NOT NULL, UNIQUE (name, member))",
    "CREATE INDEX members_of_group_by_end ON members (name, expires)",
    "CREATE INDEX members_by_end ON members (expires)",
    # Kept by triggers, since counting takes a millisecond for 10,000 members.
    "CREATE TABLE group_sizes (name TEXT PRIMARY KEY, size INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE TRIGGER member_added AFTER INSERT ON members BEGIN"
    " INSERT INTO group_sizes (name, size) VALUES (new.name, 1) ON CONFLICT (name) DO UPDATE SET size = size + 1; END",
    "CREATE TRIGGER member_removed AFTER DELETE ON members BEGIN"
    " UPDATE group_sizes SET size = size - 1 WHERE name = old.name;"
    " DELETE FROM group_sizes WHERE name = old.name AND size = 0; END",
    # A bucket expires when it is full again.
    "CREATE TABLE buckets (name TEXT NOT NULL UNIQUE, expires REAL NOT NULL)",
    "CREATE INDEX buckets_by_end ON buckets (expires)",
    f"PRAGMA application_id = {APPLICATION}",
    f"PRAGMA user_version = {VERSION}",
)

_SCHEMA = (*_ENTRIES, *_LOGS, *_SINCE_2)

_UPGRADE_FROM_1 = (
    "DROP TABLE leases",
    "DROP TABLE messages",
    "ALTER TABLE logs RENAME TO old_logs",
    *_LOGS,
    "INSERT INTO logs (id, name, last, expires) SELECT id, name, last, expires FROM old_logs",
    "DROP TABLE old_logs",
    *_SINCE_2,
)


def prepare(path: str) -> None:
    """Create the file if it is missing, readable by its owner only, and check that it is a usable store."""
    if path in {"", ":memory:"}:
        raise StoreUnusable("SqliteStore needs a path; use MemoryStore for a store in memory")
    try:
        # SQLite creates the files -wal and -shm with the same mode.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        pass
    except OSError as problem:
        raise StoreUnusable(f"{path} cannot be created: {problem.strerror}") from problem
    connection = None
    try:
        connection = sqlite3.connect(path, timeout=LOCK_SECONDS, isolation_level=None)
        # Before anything is written: the file may belong to another program.
        version = _read_version(connection, path)
        _use_wal(connection, path)
        if version < VERSION:
            _create_or_upgrade(connection, path)
    except sqlite3.Error as problem:
        if is_busy(problem):
            raise StoreUnavailable(f"Another process kept {path} locked for {LOCK_SECONDS:g} s") from problem
        raise StoreUnusable(f"{path} cannot be used as a store: {problem}") from problem
    finally:
        if connection is not None:
            connection.close()


def connect(path: str, lock_seconds: float = JOB_LOCK_SECONDS, *, durable: bool = True) -> sqlite3.Connection:
    """Connect to a prepared file; the caller makes sure that one thread at a time uses the connection.

    Commits survive the end of the process. After a power failure the file is intact, but may lack the newest
    commits: `synchronous=NORMAL` with a write-ahead log. If it need not be `durable`, nothing waits for the disk.
    """
    connection = sqlite3.connect(path, timeout=lock_seconds, isolation_level=None, check_same_thread=False)
    connection.execute(f"PRAGMA synchronous = {'NORMAL' if durable else 'OFF'}")
    connection.execute("PRAGMA journal_size_limit = 16777216")
    return connection


def is_busy(problem: Exception) -> bool:
    """True for an error that says that another process has locked the file."""
    # The primary result code is in the lowest byte. Errors of the sqlite3 module itself have no code.
    code = getattr(problem, "sqlite_errorcode", sqlite3.SQLITE_OK)
    return code & 0xFF in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


def _read_version(connection: sqlite3.Connection, path: str) -> int:
    """The version of the format; in one transaction, since another process may be creating the file now."""
    connection.execute("BEGIN")
    try:
        return _version(connection, path)
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _version(connection: sqlite3.Connection, path: str) -> int:
    """The version of the format, 0 for a new file."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application == APPLICATION:
        if version > VERSION:
            raise StoreUnusable(f"{path} was written by a newer version (format {version}, this one knows {VERSION})")
        return version
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application or version or tables:
        raise StoreUnusable(f"{path} is an SQLite database of another program")
    return 0


def _use_wal(connection: sqlite3.Connection, path: str) -> None:
    """Switch to a write-ahead log, with which readers are not blocked by a writer."""
    end = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
            break
        except sqlite3.OperationalError:
            # SQLite does not wait by itself if two processes switch a new file at once.
            if time.monotonic() > end:
                raise
            time.sleep(0.01)
    if mode != "wal":
        raise StoreUnusable(f"{path} cannot be shared between processes: no write-ahead log on this file system")


def _create_or_upgrade(connection: sqlite3.Connection, path: str) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Another process may have done it meanwhile.
        version = _version(connection, path)
        if version < VERSION:
            for statement in _UPGRADE_FROM_1 if version else _SCHEMA:
                connection.execute(statement)
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
