"""Limits for connections whose peers do not read: in time, and in bytes over all of them."""

from __future__ import annotations

import logging
import time
from typing import Protocol

from dovetail.transports.http.server.timeout_wheel import TimeoutWheel

logger = logging.getLogger("dovetail")

WRITE_SECONDS = 60.0
"""Seconds that a peer may take none of the bytes that wait for it, or up to a quarter longer."""

MAX_UNSENT_BYTES = 128_000_000
"""Bytes that may wait in all connections of a process whose peers read too slowly."""

_SECONDS_BETWEEN_WARNINGS = 60.0


class Writer(Protocol):
    """The part of a transport that is needed here."""

    def get_write_buffer_size(self) -> int:
        """The number of bytes that wait to be sent."""
        ...

    def abort(self) -> None:
        """Drop the connection and what waits to be sent."""
        ...


class WriteWatch:
    """The connections of a process that have more to send than their peers take.

    Above the limit over all connections, the one whose peer has taken nothing for the longest time is aborted first:
    peers that read, even slowly, are served as long as possible.
    """

    def __init__(self, seconds: float | None = None, max_bytes: int | None = None) -> None:
        self._max_bytes = MAX_UNSENT_BYTES if max_bytes is None else max_bytes
        self._wheel: TimeoutWheel[Writer] = TimeoutWheel(WRITE_SECONDS if seconds is None else seconds, self._check)
        self._sizes: dict[Writer, int] = {}  # in the order of the last progress
        self._held: dict[Writer, int] = {}
        """The largest size since a connection was added: a response is kept as a whole until all of it is sent."""
        self._total = 0
        self._warned: float | None = None

    def add(self, writer: Writer) -> None:
        """Watch a connection in which bytes wait."""
        if writer not in self._sizes:
            self._wheel.add(writer)
        self._set_size(writer, writer.get_write_buffer_size())
        if self._total > self._max_bytes:
            self._make_room(writer)

    def discard(self, writer: Writer) -> None:
        """Stop watching a connection: its peer has caught up, or it is lost."""
        self._sizes.pop(writer, None)
        self._total -= self._held.pop(writer, 0)
        self._wheel.discard(writer)

    def _set_size(self, writer: Writer, size: int) -> None:
        self._sizes[writer] = size
        before = self._held.get(writer, 0)
        held = max(size, before) if size else 0
        self._held[writer] = held
        self._total += held - before

    def _has_progressed(self, writer: Writer) -> bool:
        """True if the peer took bytes since the last look."""
        before, now = self._sizes[writer], writer.get_write_buffer_size()
        if now < before:
            del self._sizes[writer]
            self._sizes[writer] = before  # moved to the end
        self._set_size(writer, now)
        return now < before

    def _check(self, writer: Writer) -> None:
        if writer not in self._sizes:
            return
        if self._has_progressed(writer):
            self._wheel.add(writer)
        else:
            self._abort(writer)

    def _make_room(self, newest: Writer) -> None:
        for writer in list(self._sizes):
            self._has_progressed(writer)
        self._sizes[newest] = self._sizes.pop(newest)
        aborted = 0
        while self._total > self._max_bytes:
            self._abort(next(iter(self._sizes)))
            aborted += 1
        now = time.monotonic()
        if aborted and (self._warned is None or now - self._warned > _SECONDS_BETWEEN_WARNINGS):
            self._warned = now
            logger.warning(
                "More than %d bytes waited for clients that do not read; those that had waited longest were dropped",
                self._max_bytes,
            )

    def _abort(self, writer: Writer) -> None:
        self.discard(writer)
        writer.abort()
