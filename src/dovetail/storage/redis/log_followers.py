"""Followers of logs: messages of channels, and reads wherever messages may have been missed.

A follower subscribes to the channel of its log, then reads the log from its position, then takes the entries from the
messages. A message that does not continue at its position (because some were lost, or the log began again), and every
new connection, make it read again. So what is delivered depends on the log alone; messages only make it quick.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Any

from dovetail.storage.contract import LogEntries, StoreError, StoreUnavailable
from dovetail.storage.followers import Follower, Followers

from .connection import Link, LinkState, ignore_outcome
from .topology import Servers

logger = logging.getLogger("dovetail")

READ_LIMIT = 500
"""Entries that one read of a follower returns at most."""
_PING_SECONDS = 5.0
"""Between checks of a connection that only waits: one that was cut without notice must not stay unnoticed."""
_RETRY_SECONDS = 0.5

LogReader = Callable[[str, int, int, int | None], Awaitable["tuple[int, int, LogEntries] | None"]]
"""Read a log after a position, with a limit, if it is of a generation: generation, last position, entries; or None."""


class RedisFollower(Follower):
    """A follower that knows which log it has read, and whether it reads now."""

    __slots__ = ("is_reading", "must_read")

    def __init__(self, followers: Followers, log: str, callback: Callable[[LogEntries], None], after: int) -> None:
        super().__init__(followers, log, callback, after)
        # `follow` reads first, and messages that come before that only make it read again.
        self.is_reading = True
        self.must_read = True

    def advance(self, generation: int, entries: LogEntries) -> None:
        """Deliver entries, and remember the position of the last."""
        self.generation = generation
        if entries:
            self.position = entries[-1][0]
            self.send(entries)


class LogFollowers(Followers):
    """The followers of one event loop, with one connection for the messages of all channels."""

    __slots__ = ("_channel", "_link", "_loop", "_prefix", "_read", "_servers", "_tasks", "_timeout")

    def __init__(self, servers: Servers, read: LogReader, channel_prefix: bytes, timeout: float) -> None:
        super().__init__()
        self._servers = servers
        self._read = read
        self._prefix = channel_prefix
        self._timeout = timeout
        self._loop = asyncio.get_running_loop()
        self._link: Link | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def channel(self, log: str) -> bytes:
        """The name of the channel of a log."""
        return self._prefix + log.encode()

    async def follow(self, log: str, after: int, callback: Callable[[LogEntries], None]) -> RedisFollower:
        """Subscribe to a log and read what it has; a store that is unavailable is an error now, but not later."""
        if self._link is None:
            self._link = Link(
                self._servers.dial_listener, self._timeout, on_open=self._resubscribe, on_push=self._take_message
            )
            self._start(self._watch(self._link))
        follower = RedisFollower(self, log, callback, after)
        self.add(follower)
        try:
            await self._subscribe(log)
            await self._catch_up(follower)
        except BaseException:
            follower.close()
            raise
        follower.is_reading = False
        return follower

    def remove(self, follower: Follower) -> None:
        """Stop delivering to a follower, and unsubscribe if it was the last of its log."""
        super().remove(follower)
        if not self.of(follower.log):
            try:
                self._loop.call_soon_threadsafe(self._unsubscribe, follower.log)
            except RuntimeError:
                # The event loop was closed, and its connections with it.
                return

    async def close(self) -> None:
        """Close all subscriptions and the connection."""
        self.clear()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        if self._link is not None:
            await self._link.close()

    def _start(self, work: Any) -> None:
        task = self._loop.create_task(work, name="dovetail-redis-follower")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _subscribe(self, log: str) -> None:
        # Each command names one channel, because each channel has its own reply.
        if self._link is not None:
            await self._link.call((b"SUBSCRIBE", self.channel(log)))

    def _unsubscribe(self, log: str) -> None:
        # Without a connection nothing is subscribed; and another follower may have come meanwhile.
        if not self.of(log) and self._link is not None and self._link.state is LinkState.OPEN:
            self._link.call((b"UNSUBSCRIBE", self.channel(log))).add_done_callback(ignore_outcome)

    def _resubscribe(self) -> None:
        """Subscribe with a new connection to all logs, and read what was missed meanwhile."""
        for log in self.logs():
            self._start(self._resume(log))

    async def _resume(self, log: str) -> None:
        try:
            await self._subscribe(log)
        except StoreError:
            # The connection broke again; the next one subscribes.
            return
        self._read_again(log)

    def _read_again(self, log: str) -> None:
        for follower in self.of(log):
            if isinstance(follower, RedisFollower):
                self._make_read(follower)

    def _make_read(self, follower: RedisFollower) -> None:
        follower.must_read = True
        if not follower.is_reading:
            follower.is_reading = True
            self._start(self._catch_up_later(follower))

    def _take_message(self, message: list[Any]) -> None:
        """Deliver the entries of a message to the followers that have all before it; let the others read."""
        _, channel, data = message
        log = channel[len(self._prefix) :].decode()
        try:
            generation, first, count, entries = _parse_message(data)
        except ValueError:
            # Another program has published it. Whatever it is, the log has what counts.
            self._read_again(log)
            return
        for follower in self.of(log):
            if not isinstance(follower, RedisFollower):
                continue
            known = follower.generation
            begins = first == 1 and (known is None or known < generation)
            continues = known == generation and first == follower.position + 1
            if entries and not follower.is_reading and (begins or continues):
                follower.advance(generation, entries)
            elif follower.is_reading or known != generation or first + count - 1 > follower.position:
                self._make_read(follower)

    async def _catch_up_later(self, follower: RedisFollower) -> None:
        """Read until nothing is missing, again and again while the store is unavailable."""
        while not follower.closed:
            try:
                await self._catch_up(follower)
            except StoreUnavailable:
                await asyncio.sleep(_RETRY_SECONDS * random.uniform(0.5, 1.0))
            except StoreError as problem:
                logger.error("The log %r cannot be followed now; trying again: %s", follower.log, problem)
                await asyncio.sleep(10 * _RETRY_SECONDS)
            else:
                break
        # Not before: of two that read at once, both would deliver the same entries.
        follower.is_reading = False

    async def _catch_up(self, follower: RedisFollower) -> None:
        """Deliver what the log has after the position of a follower."""
        while follower.must_read and not follower.closed:
            follower.must_read = False
            try:
                found = await self._read(follower.log, follower.position, READ_LIMIT, follower.generation)
            except BaseException:
                follower.must_read = True
                raise
            if found is None:
                # What was read has ended. A log that begins now is followed from its beginning.
                follower.generation, follower.position = None, 0
                continue
            generation, last, entries = found
            if generation != follower.generation and (entries or follower.position > last):
                follower.position = entries[0][0] - 1 if entries else 0
            follower.advance(generation, entries)
            follower.must_read |= follower.position < last

    async def _watch(self, link: Link) -> None:
        """Check the connection now and then; and the logs, where a message can be lost without a broken connection."""
        checks = 0
        while True:
            await asyncio.sleep(_PING_SECONDS)
            checks += 1
            if link.state is LinkState.OPEN:
                link.call((b"PING",)).add_done_callback(ignore_outcome)
            if self._servers.polls and checks % 2 == 0:
                for log in self.logs():
                    self._read_again(log)


def _parse_message(data: bytes) -> tuple[int, int, int, list[tuple[int, bytes]]]:
    """Generation, position of the first entry, number of entries, and the entries unless they are too large."""
    head, has_entries, body = data.partition(b"\n")
    generation, first, count, lengths = head.split(b":")
    position, entries, start = int(first), list[tuple[int, bytes]](), 0
    if has_entries:
        for offset, length in enumerate(lengths.split(b",")):
            end = start + int(length)
            entries.append((position + offset, body[start:end]))
            start = end
    return int(generation), position, int(count), entries
