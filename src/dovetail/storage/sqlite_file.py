"""The file of an SQLite store: creation, identification, connections."""

from __future__ import annotations

import os
import sqlite3
import time

from .contract import StoreUnusable

APPLICATION = 0x44_6F_76_74  # "Dovt", in the application id of the SQLite file
VERSION = 1
LOCK_SECONDS = 5.0
"""Seconds to wait for another process that is writing."""

_SCHEMA = (
    "CREATE TABLE entries (key TEXT NOT NULL UNIQUE, value BLOB NOT NULL, expires REAL NOT NULL)",
    "CREATE INDEX entries_by_end ON entries (expires)",
    # A dropped log has no name and is expired: its events are deleted with those of other expired logs.
    "CREATE TABLE logs (id INTEGER PRIMARY KEY, name TEXT UNIQUE, last INTEGER NOT NULL, expires REAL NOT NULL)",
    "CREATE INDEX logs_by_end ON logs (expires)",
    "CREATE TABLE events (log INTEGER NOT NULL, position INTEGER NOT NULL, entry BLOB NOT NULL,"
    " PRIMARY KEY (log, position)) WITHOUT ROWID",
    "CREATE TABLE leases (name TEXT NOT NULL UNIQUE, owner TEXT NOT NULL, expires REAL NOT NULL)",
    "CREATE INDEX leases_by_end ON leases (expires)",
    "CREATE TABLE messages (number INTEGER PRIMARY KEY, topic TEXT NOT NULL, message BLOB NOT NULL,"
    " sent REAL NOT NULL)",
    f"PRAGMA application_id = {APPLICATION}",
    f"PRAGMA user_version = {VERSION}",
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
        is_new = _check_is_new(connection, path)
        _use_wal(connection, path)
        if is_new:
            _create(connection, path)
    except sqlite3.Error as problem:
        raise StoreUnusable(f"{path} cannot be used as a store: {problem}") from problem
    finally:
        if connection is not None:
            connection.close()


def connect(path: str, lock_seconds: float = LOCK_SECONDS) -> sqlite3.Connection:
    """Connect to a prepared file; the caller makes sure that one thread at a time uses the connection.

    Commits survive the end of the process. After a power failure the file is intact, but may lack the newest
    commits: `synchronous=NORMAL` with a write-ahead log.
    """
    connection = sqlite3.connect(path, timeout=lock_seconds, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA journal_size_limit = 16777216")
    return connection


def _check_is_new(connection: sqlite3.Connection, path: str) -> bool:
    """True if the file is new; in one transaction, since another process may be creating it now."""
    connection.execute("BEGIN")
    try:
        return _is_new(connection, path)
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _is_new(connection: sqlite3.Connection, path: str) -> bool:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application == APPLICATION:
        if version > VERSION:
            raise StoreUnusable(f"{path} was written by a newer version (format {version}, this one knows {VERSION})")
        return False
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application or version or tables:
        raise StoreUnusable(f"{path} is an SQLite database of another program")
    return True


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


def _create(connection: sqlite3.Connection, path: str) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Another process may have created the tables meanwhile.
        if _is_new(connection, path):
            for statement in _SCHEMA:
                connection.execute(statement)
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
