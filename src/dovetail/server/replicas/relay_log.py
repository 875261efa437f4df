"""Relay log: what a replica sends about a call that it serves for another one, as entries of a log in the store.

The replica that serves the call writes: messages to the client in order, then the result or the error, which closes the
log. The replica that has the client reads. Either side may close the log, and only one can: a replica that was
suspended and comes back finds it closed, and stops.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import msgspec

from dovetail.protocol.errors import INTERNAL_ERROR, ProtocolError
from dovetail.storage.contract import LogEntries, Logs, StoreError
from dovetail.transports.base import HIGH_WATER, MAX_RECEIVED, MessageSink

MAX_RELAYED = MAX_RECEIVED
"""The largest result in bytes that one replica can relay to another: the most that a client accepts."""

PART_BYTES = 256 * 1024
"""Bytes of a result in one entry; a larger result is divided."""

RELAY_SECONDS = 60.0
"""Seconds that a relay log is kept after its last entry, where nobody removes it."""

RETRY_SECONDS = 10.0
"""Seconds for which a store that cannot be reached is tried again before a call is given up."""


class Started(msgspec.Struct, array_like=True, frozen=True, tag=1):
    """The replica has claimed the call, and runs it."""

    number: int


class Declined(msgspec.Struct, array_like=True, frozen=True, tag=2):
    """The replica does not run the call, and will not."""

    number: int


class Line(msgspec.Struct, array_like=True, frozen=True, tag=3):
    """A message to the client, before the answer."""

    number: int
    line: bytes


class Part(msgspec.Struct, array_like=True, frozen=True, tag=4):
    """A part of a large result."""

    number: int
    data: bytes


class Finished(msgspec.Struct, array_like=True, frozen=True, tag=5):
    """The result, or its last part."""

    number: int
    data: bytes


class Failed(msgspec.Struct, array_like=True, frozen=True, tag=6):
    """The error that the call ended in; `data` is JSON."""

    number: int
    code: int
    message: str
    data: bytes | None


class Abandoned(msgspec.Struct, array_like=True, frozen=True, tag=7):
    """The reading replica has given the call up."""

    number: int


Entry: TypeAlias = Started | Declined | Line | Part | Finished | Failed | Abandoned

encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Entry).decode


class RelayWriter:
    """Message sink of a call that is served for another replica: writes to the relay log, in order."""

    def __init__(
        self, store: Logs, log: str, headers: Mapping[bytes, bytes] | None = None, no_requests: str | None = None
    ) -> None:
        self.no_requests = no_requests
        """The reason why the client cannot be sent requests meanwhile; None where it can."""
        self._store = store
        self._log = log
        self.request_headers = headers
        """The headers of the client's request, without credentials."""
        self.on_closed: Callable[[], object] | None = None
        """Called when the other replica has closed the log, or the store is away for too long."""
        self.closed = False
        self._number = 0
        self._pending: list[bytes] = []
        self._flushing: asyncio.Task[None] | None = None
        self._unread = 0
        self._drained = asyncio.Event()
        self._drained.set()

    @property
    def congested(self) -> bool:
        """True if the client, or the replica that it is connected to, reads more slowly than we write."""
        return self._unread > HIGH_WATER

    def send(self, line: bytes) -> None:
        """Write a message to the client."""
        self._put(Line(self._next(), line), len(line))

    def finish(self, line: bytes | None) -> None:
        """Nothing to do: the answer is written by `end`."""

    def disconnect(self, retry: float) -> None:
        """Nothing to do: the stream of a request on this era cannot be resumed."""

    async def drained(self) -> None:
        """Wait until the other replica has read enough, or has gone."""
        while self.congested and not self.closed:
            self._drained.clear()
            await self._drained.wait()

    def was_read(self, size: int) -> None:
        """The other replica has passed bytes on to the client."""
        self._unread = max(0, self._unread - size)
        self._drained.set()

    def start(self) -> None:
        """Write that the call is run here."""
        self._put(Started(self._next()))

    async def decline(self) -> None:
        """Write that the call is not run here."""
        await self._append([encode(Declined(self._next()))], close=True)

    async def end(self, outcome: bytes | ProtocolError) -> None:
        """Write the result or the error, and close the log."""
        if isinstance(outcome, bytes) and len(outcome) > MAX_RELAYED:
            text = f"The result has {len(outcome)} bytes; one replica can relay {MAX_RELAYED} to another"
            outcome = ProtocolError(INTERNAL_ERROR, text)
        if isinstance(outcome, ProtocolError):
            data = None if outcome.data is None else msgspec.json.encode(outcome.data)
            last: Entry = Failed(self._next(), outcome.code, outcome.message, data)
        else:
            rest = memoryview(outcome)
            while len(rest) > PART_BYTES and not self.closed:
                self._put(Part(self._next(), bytes(rest[:PART_BYTES])), PART_BYTES)
                rest = rest[PART_BYTES:]
                await self.drained()
            last = Finished(self._next(), bytes(rest))
        if self._flushing is not None:
            await self._flushing
        if not self.closed:
            await self._append([encode(last)], close=True)

    async def touch(self) -> None:
        """Keep the log while there is nothing to write; find out if the other replica has closed it."""
        if not self.closed and await self._store.append(self._log, [], RELAY_SECONDS) is None:
            self.close()

    def close(self) -> None:
        """Write nothing more."""
        if not self.closed:
            self.closed = True
            self._pending.clear()
            self._drained.set()
            if self.on_closed is not None:
                self.on_closed()

    def _next(self) -> int:
        self._number += 1
        return self._number

    def _put(self, entry: Entry, size: int = 0) -> None:
        if not self.closed:
            self._unread += size
            self._pending.append(encode(entry))
            if self._flushing is None or self._flushing.done():
                self._flushing = asyncio.get_running_loop().create_task(self._flush())

    async def _flush(self) -> None:
        while self._pending:
            batch, self._pending = self._pending, []
            await self._append(batch)

    async def _append(self, entries: list[bytes], *, close: bool = False) -> None:
        """Append entries; a second attempt may write them twice, which their numbers tell the reader."""
        loop = asyncio.get_running_loop()
        until, pause = loop.time() + RETRY_SECONDS, 0.05
        while not self.closed:
            try:
                if await self._store.append(self._log, entries, RELAY_SECONDS, close=close) is None:
                    self.close()
                return
            except StoreError:
                if loop.time() > until:
                    self.close()
                    return
                await asyncio.sleep(pause)
                pause = min(2 * pause, 1.0)


class RelayReader:
    """Reads a relay log: passes messages on to the client, and has the outcome at the end."""

    def __init__(self, sink: MessageSink, acknowledge: Callable[[int, bool], None]) -> None:
        """`acknowledge` is called with a number of bytes that were read, and if the client must have read them too."""
        loop = asyncio.get_running_loop()
        self.started: asyncio.Future[bool] = loop.create_future()
        """True once the other replica runs the call, False if it declines."""
        self.outcome: asyncio.Future[bytes | ProtocolError] = loop.create_future()
        self._sink = sink
        self._acknowledge = acknowledge
        self._unread = 0
        self._last = 0
        self._parts: list[bytes] = []

    def received(self, entries: LogEntries) -> None:
        """New entries of the log."""
        for _, raw in entries:
            entry = _decode(raw)
            if entry.number > self._last and not self.outcome.done():
                self._last = entry.number
                self._handle(entry)

    def _handle(self, entry: Entry) -> None:
        match entry:
            case Started():
                self._decide(True)
            case Declined():
                self._decide(False)
            case Line():
                self._decide(True)
                self._sink.send(entry.line)
                self._count(len(entry.line), wait=True)
            case Part():
                self._decide(True)
                self._parts.append(entry.data)
                self._count(len(entry.data), wait=False)
            case Finished():
                self._decide(True)
                self.outcome.set_result(b"".join([*self._parts, entry.data]))
            case Failed():
                self._decide(True)
                data: Any = None if entry.data is None else msgspec.json.decode(entry.data)
                self.outcome.set_result(ProtocolError(entry.code, entry.message, data))
            case Abandoned():
                pass

    def _decide(self, started: bool) -> None:
        if not self.started.done():
            self.started.set_result(started)

    def _count(self, size: int, *, wait: bool) -> None:
        self._unread += size
        if self._unread >= HIGH_WATER // 2:
            self._acknowledge(self._unread, wait)
            self._unread = 0
