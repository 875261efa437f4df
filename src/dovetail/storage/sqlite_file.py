"""The file of an SQLite store: how it is made, recognised and opened."""

from __future__ import annotations

import os
import sqlite3
import time

from .contract import StoreUnusable

APPLICATION = 0x44_6F_76_74  # "Dovt", where SQLite keeps whose file it is
VERSION = 1
PATIENCE = 5.0
"""Seconds to wait for another process that is writing."""

_SCHEMA = (
    "CREATE TABLE entries (key TEXT NOT NULL UNIQUE, value BLOB NOT NULL, expires REAL NOT NULL)",
    "CREATE INDEX entries_by_end ON entries (expires)",
    # A log that was dropped has no name any more, and is past its time: its events are freed with the rest.
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
    """Make the file if it is not there, readable by its owner only, and see that it is ours and usable."""
    if path in {"", ":memory:"}:
        raise StoreUnusable("An SQLite store needs a file; to keep everything in memory use MemoryStore")
    try:
        # SQLite gives the files beside it, -wal and -shm, the same mode.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        pass
    except OSError as problem:
        raise StoreUnusable(f"{path} cannot be created: {problem.strerror}") from problem
    connection = None
    try:
        connection = sqlite3.connect(path, timeout=PATIENCE, isolation_level=None)
        # Before anything is written: the file may be someone else's.
        fresh = _looks_fresh(connection, path)
        _use_wal(connection, path)
        if fresh:
            _create(connection, path)
    except sqlite3.Error as problem:
        raise StoreUnusable(f"{path} cannot be used as a store: {problem}") from problem
    finally:
        if connection is not None:
            connection.close()


def connect(path: str, patience: float = PATIENCE) -> sqlite3.Connection:
    """A connection to a file that was prepared, for whichever thread holds its lock or owns it.

    What is committed survives the death of the process at once, and after a loss of power the file is
    whole but may lack the newest commits: `synchronous=NORMAL` with a write-ahead log.
    """
    connection = sqlite3.connect(path, timeout=patience, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA journal_size_limit = 16777216")
    return connection


def _looks_fresh(connection: sqlite3.Connection, path: str) -> bool:
    """In one transaction, since another process may be making the file in this moment."""
    connection.execute("BEGIN")
    try:
        return _is_fresh(connection, path)
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _is_fresh(connection: sqlite3.Connection, path: str) -> bool:
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
    """Switch to a write-ahead log, which lets readers read while one process writes."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
            break
        except sqlite3.OperationalError:
            # SQLite does not wait by itself when two processes switch a new file at once.
            if time.monotonic() > end:
                raise
            time.sleep(0.01)
    if mode != "wal":
        raise StoreUnusable(f"{path} cannot be shared between processes: no write-ahead log on this file system")


def _create(connection: sqlite3.Connection, path: str) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Another process may have been quicker.
        if _is_fresh(connection, path):
            for statement in _SCHEMA:
                connection.execute(statement)
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
