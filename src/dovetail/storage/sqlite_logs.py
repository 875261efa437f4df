"""The logs of a SQLite store: work of the writing thread, and delivery of new entries to followers."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable

from .followers import Follower, Followers

POLL = 0.01
"""Seconds between two checks for entries of other processes, while there are followers."""

IDLE_POLL = 0.04
"""The same, after a time without any change: 100 checks a second take 1 % of a processor, 25 a third of that."""

_IDLE_CHECKS = 200

DELIVERY_SECONDS = IDLE_POLL + POLL
"""The time between two checks of another process, and some for the check; one that waits for the disk is later."""

_OTHERS_SECONDS = 10.0
"""Seconds after its last commit for which another process is expected to follow logs: replicas write every 2."""

_MAX_READ = 500
"""Entries that are delivered to a follower at once."""


def append(
    connection: sqlite3.Connection,
    now: float,
    log: str,
    entries: list[bytes],
    expires: float,
    keep: int | None,
    writer: str | None,
    close: bool,
) -> int | None:
    """Append entries; the position of the last, or None if it is closed or claimed by another writer."""
    sql = "SELECT id, last, writer, closed FROM logs WHERE name = ? AND expires > ?"
    row = connection.execute(sql, (log, now)).fetchone()
    if row is None and not entries:
        return 0
    number, last, claimed, closed = row or (_begin(connection, log), 0, None, False)
    if closed or (writer is not None and claimed not in {None, writer}):
        return None
    first, last = last + 1, last + len(entries)
    connection.executemany(
        "INSERT INTO events (log, position, entry) VALUES (?, ?, ?)",
        [(number, position, entry) for position, entry in enumerate(entries, first)],
    )
    connection.execute("UPDATE logs SET last = ?, expires = ?, closed = ? WHERE id = ?", (last, expires, close, number))
    if keep is not None:
        connection.execute("DELETE FROM events WHERE log = ? AND position <= ?", (number, last - keep))
    return last


def claim(connection: sqlite3.Connection, now: float, log: str, writer: str, expires: float) -> int:
    """Set the writer of a log that is not closed; the position of its newest entry, or 0."""
    row = connection.execute("SELECT id, last FROM logs WHERE name = ? AND expires > ?", (log, now)).fetchone()
    number, last = row or (_begin(connection, log), 0)
    sql = "UPDATE logs SET writer = ?, expires = ? WHERE id = ? AND NOT closed"
    connection.execute(sql, (writer, expires, number))
    return last


def _begin(connection: sqlite3.Connection, log: str) -> int:
    # An expired log of this name may still exist; the new one is another log.
    connection.execute("UPDATE logs SET name = NULL, expires = -1 WHERE name = ?", (log,))
    number = connection.execute("INSERT INTO logs (name, last, expires) VALUES (?, 0, 0)", (log,)).lastrowid
    assert number is not None
    return number


def prune(connection: sqlite3.Connection, now: float, limit: int) -> int:
    """Delete entries of expired logs, and the logs that have none left; the number of rows, up to a limit."""
    left = limit
    ended = connection.execute("SELECT id FROM logs WHERE expires <= ? LIMIT ?", (now, left)).fetchall()
    for (log,) in ended:
        left -= connection.execute(
            "DELETE FROM events WHERE log = ? AND position IN"
            " (SELECT position FROM events WHERE log = ? ORDER BY position LIMIT ?)",
            (log, log, left),
        ).rowcount
        if left <= 0:
            return limit
        connection.execute("DELETE FROM logs WHERE id = ?", (log,))
        left -= 1
    return limit - left


class LogPoller:
    """The followers of this process, and what they have been sent; used by the writing thread only.

    SQLite's data version changes when another connection has committed, so that a check without news costs a few
    microseconds.
    """

    def __init__(self, followers: Followers, clock: Callable[[], float]) -> None:
        self._followers = followers
        self._clock = clock
        self._new: dict[Follower, None] = {}
        self._changed: dict[str, None] = {}
        """The logs that this process has appended to since the last check."""
        self._data_version = -1
        self._checks_without_news = 0
        self._others_wrote = time.monotonic()

    @property
    def delivery_seconds(self) -> float:
        """Seconds until other processes have checked, 0.0 if none has written lately; may be read by any thread."""
        return DELIVERY_SECONDS if time.monotonic() < self._others_wrote + _OTHERS_SECONDS else 0.0

    def add(self, connection: sqlite3.Connection, follower: Follower) -> None:
        """Send to this follower from the next check on."""
        self._new[follower] = None

    def note(self, log: str) -> None:
        """Send the entries that this process has appended at the next check."""
        self._changed[log] = None

    def check(self, connection: sqlite3.Connection) -> float | None:
        """Send the new entries of all processes to the followers; return the seconds until the next check."""
        for follower in list(self._new):
            self._send(connection, follower)
            self._followers.add(follower)
            del self._new[follower]
        if not self._followers:
            self._changed.clear()
            return None
        (version,) = connection.execute("PRAGMA data_version").fetchone()
        logs = self._changed
        if version != self._data_version:
            self._others_wrote = time.monotonic()
            logs = self._followers.logs()
        for log in logs:
            for follower in self._followers.of(log):
                self._send(connection, follower)
        self._checks_without_news = 0 if logs else self._checks_without_news + 1
        # Last, so that a check that has failed is repeated.
        self._changed.clear()
        self._data_version = version
        return POLL if self._checks_without_news < _IDLE_CHECKS else IDLE_POLL

    def _send(self, connection: sqlite3.Connection, follower: Follower) -> None:
        sql = "SELECT id, last FROM logs WHERE name = ? AND expires > ?"
        generation, last = connection.execute(sql, (follower.log, self._clock())).fetchone() or (0, 0)
        if follower.generation not in {None, generation} or follower.position > last:
            # Another log of this name than the one that was read.
            follower.position = 0
        follower.generation = generation
        sql = "SELECT position, entry FROM events WHERE log = ? AND position > ? ORDER BY position LIMIT ?"
        while follower.position < last and not follower.closed:
            entries = connection.execute(sql, (generation, follower.position, _MAX_READ)).fetchall()
            if not entries:
                # All were discarded.
                follower.position = last
                break
            follower.position = entries[-1][0]
            follower.send(entries)
