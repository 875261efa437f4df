"""Replica: this process among those that share a store, with its heartbeat and the messages between them.

Messages travel as entries of logs that are followed: one log of announcements for all, one inbox for each replica. A
replica whose connection to the store broke reads what it missed, as long as the logs hold it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import msgspec

from dovetail.storage.contract import LogEntries, Store, StoreError, Subscription

from .messages import (
    Announcement,
    ListChanged,
    ReplicaMessage,
    ResourceUpdated,
    SessionNotification,
    StoredMessage,
    decode_announcement,
    decode_message,
    encode,
)

logger = logging.getLogger("dovetail")

HEARTBEAT_SECONDS = 2.0
ALIVE_SECONDS = 6.0
"""Seconds after its last heartbeat for which a replica counts as alive."""

MAX_ANNOUNCEMENTS = 10_000
"""Announcements that are kept for replicas that were cut off for a while."""

RECENT_ANNOUNCEMENTS = 4000
"""Announcements that a replica remembers, for clients whose stream comes from one that died."""

HEARD_SECONDS = 0.5
"""Seconds that a change waits at most for its announcement to be heard, before it is acknowledged."""

ANNOUNCEMENT_SECONDS = 86_400.0
INBOX_SECONDS = 60.0
MAX_INBOX = 1000
MAX_INLINE = 65_536
"""The longest message in bytes that is an entry of an inbox; longer ones are stored under a key of their own."""

_RETRY_SECONDS = 0.25
_MAX_RETRY_SECONDS = 2.0
_UNREACHABLE = "The store cannot be reached; trying again until it can: %s"
_ANNOUNCEMENTS = "announcements"
_ID_BYTES = 6
ID_LENGTH = 2 * _ID_BYTES

MessageT = TypeVar("MessageT")


class Replica:
    """One process of an application: its identity, its heartbeat, its inbox, and the announcements of all."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.id = os.urandom(_ID_BYTES).hex()
        """Random: a restarted process is another replica, on whatever machine and with whatever process id."""
        self.position = 0
        """The position of the last announcement that was received."""
        self.recent: deque[tuple[int, Announcement]] = deque(maxlen=RECENT_ANNOUNCEMENTS)
        """Announcements that concern the streams of clients, the newest last."""
        self.complete_after = 0
        """The position after which `recent` has all of them."""
        self.on_gap: dict[str, Callable[[], None]] = {}
        """Called when announcements were discarded before this replica has read them, by the part of the server."""
        self.unavailable: str | None = None
        """The reason why the store could not be reached at the last heartbeat; None if it could."""
        self.lapses = 0
        """The number of times that others may have counted this one as dead."""
        self.lapsed = float("-inf")
        """The time of the last of them, by the clock of the event loop."""
        self.loop = self._loop = asyncio.get_running_loop()
        self._handlers: dict[type, Callable[[Any], None]] = {}
        self._outbox: deque[bytes] = deque(maxlen=MAX_ANNOUNCEMENTS)
        self._has_outgoing = asyncio.Event()
        self._unheard: dict[bytes, deque[asyncio.Future[None]]] = {}
        """Those that wait until this replica has received an announcement of its own, by its encoding."""
        self._incoming: asyncio.Queue[bytes] = asyncio.Queue()
        self._subscriptions: list[Subscription] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._copies = 0
        self._beaten = float("-inf")

    def on(self, kind: type[MessageT], handler: Callable[[MessageT], None]) -> None:
        """Call a function with each message of a type, in the order of its log."""
        self._handlers[kind] = handler

    async def open(self) -> None:
        """Begin to send heartbeats and to receive; a store that cannot be reached yet is tried again meanwhile."""
        try:
            await self._connect()
        except StoreError as problem:
            self.unavailable = str(problem)
            logger.warning(_UNREACHABLE, problem)
        self._tasks += [
            self._loop.create_task(self._beat(), name="dovetail-heartbeat"),
            self._loop.create_task(self._send_announcements(), name="dovetail-announcements"),
            self._loop.create_task(self._receive(), name="dovetail-inbox"),
        ]

    async def close(self) -> None:
        """Leave: what is announced is still sent if the store allows it, and other replicas know at once."""
        for subscription in self._subscriptions:
            subscription.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        with contextlib.suppress(StoreError):
            await self._flush_outbox()
            await self.store.delete(_heartbeat(self.id))
            await self.store.drop(_inbox(self.id))

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something on the event loop of the replica until it is closed; safe from any thread."""
        try:
            self._loop.call_soon_threadsafe(self._run_now, work)
        except RuntimeError:  # the loop is closed, and the replica with it
            work.close()

    def _run_now(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.append(task)
        task.add_done_callback(self._tasks.remove)

    def announce(self, message: Announcement) -> None:
        """Send a message to all replicas, this one included; safe from any thread."""
        line = encode(message)
        try:
            here = asyncio.get_running_loop() is self._loop
        except RuntimeError:
            here = False
        if here:
            self._queue(line)
        else:
            with contextlib.suppress(RuntimeError):  # the loop is closed, and the replica with it
                self._loop.call_soon_threadsafe(self._queue, line)

    async def announce_and_wait(self, message: Announcement) -> None:
        """Announce a message, and wait until the others are likely to have it, at most `HEARD_SECONDS`.

        When it has come back to this replica, it is on its way to all others. A store that is slow or away delays it:
        then it is announced after this has returned.
        """
        line, heard = encode(message), self._loop.create_future()
        waiting = self._unheard.setdefault(line, deque())
        waiting.append(heard)
        self._queue(line)
        try:
            async with asyncio.timeout(HEARD_SECONDS):
                await heard
                await asyncio.sleep(self.store.delivery_seconds)
        except TimeoutError:
            logger.debug("An announcement was not heard in time")
        finally:
            if heard in waiting:
                waiting.remove(heard)
            if not waiting and self._unheard.get(line) is waiting:
                del self._unheard[line]

    async def send(self, to: str, message: ReplicaMessage) -> None:
        """Send a message to one replica; it arrives after those that were sent to it before."""
        line = encode(message)
        if len(line) > MAX_INLINE:
            key = f"message:{os.urandom(12).hex()}"
            await self.store.put(key, line, INBOX_SECONDS)
            line = encode(StoredMessage(key))
        await self.store.append(_inbox(to), [line], INBOX_SECONDS, MAX_INBOX)

    async def is_alive(self, id: str) -> bool:
        """True if a replica has sent a heartbeat lately."""
        return id == self.id or await self.store.get(_heartbeat(id)) is not None

    async def ensure_alive(self) -> None:
        """Send a heartbeat now if the last one failed: other replicas would take this one for dead."""
        if self.unavailable is not None:
            await self._connect()

    def next_request_prefix(self) -> str:
        """The beginning of the ids of requests to one client, by which an answer finds this replica."""
        self._copies += 1
        return f"{self.id}.{self._copies}."

    async def _connect(self) -> None:
        if not self._subscriptions:
            last = await self.store.last(_ANNOUNCEMENTS)
            earlier = await self.store.read(_ANNOUNCEMENTS, last - RECENT_ANNOUNCEMENTS, RECENT_ANNOUNCEMENTS)
            self.complete_after = earlier[0][0] - 1 if earlier else last
            self._remember(earlier)
            self.position = last
            self._subscriptions = [
                await self.store.follow(_ANNOUNCEMENTS, last, self._announced),
                await self.store.follow(_inbox(self.id), 0, self._arrived),
            ]
        await self.beat()
        self.unavailable = None

    @property
    def has_beaten(self) -> bool:
        """True if other replicas are certain to count this one as alive now."""
        return self._loop.time() < self._beaten + ALIVE_SECONDS

    async def beat(self) -> None:
        """Send a heartbeat."""
        now, before = self._loop.time(), self._beaten
        await self.store.put(_heartbeat(self.id), b"", ALIVE_SECONDS)
        if before != float("-inf") and self._loop.time() >= before + ALIVE_SECONDS:
            self.lapses += 1
            self.lapsed = now
        self._beaten = now

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_SECONDS if self.unavailable is None else _RETRY_SECONDS)
            was = self.unavailable
            try:
                await self._connect()
            except StoreError as problem:
                self.unavailable = str(problem)
                if was is None:
                    logger.warning(_UNREACHABLE, problem)
            else:
                if was is not None:
                    logger.warning("The store can be reached again")

    def _queue(self, line: bytes) -> None:
        self._outbox.append(line)
        self._has_outgoing.set()

    async def _send_announcements(self) -> None:
        pause = _RETRY_SECONDS
        while True:
            await self._has_outgoing.wait()
            try:
                await self._flush_outbox()
                pause = _RETRY_SECONDS
            except StoreError:
                await asyncio.sleep(pause)
                pause = min(2 * pause, _MAX_RETRY_SECONDS)

    async def _flush_outbox(self) -> None:
        while self._outbox:
            batch = list(self._outbox)
            self._outbox.clear()
            try:
                await self.store.append(_ANNOUNCEMENTS, batch, ANNOUNCEMENT_SECONDS, MAX_ANNOUNCEMENTS)
            except BaseException:
                # If the store has them after all, they are announced twice, which does no harm.
                self._outbox.extendleft(reversed(batch))
                raise
        self._has_outgoing.clear()

    def _announced(self, entries: LogEntries) -> None:
        for position, line in entries:
            before, self.position = self.position, position
            if position != before + 1:
                self.complete_after = position - 1
                for handler in self.on_gap.values():
                    self._call(handler, "a gap in the announcements")
            message = self._remember([(position, line)])
            if message is not None:
                self._handle(message)
            if waiting := self._unheard.get(line):
                heard = waiting.popleft()
                if not heard.done():
                    heard.set_result(None)

    def _remember(self, entries: LogEntries) -> Announcement | None:
        message = None
        for position, line in entries:
            try:
                message = decode_announcement(line)
            except msgspec.DecodeError:
                # A newer version of the server, during an upgrade, may have other messages.
                logger.debug("An announcement cannot be read")
                message = None
            if isinstance(message, (ListChanged, ResourceUpdated)) or (
                isinstance(message, SessionNotification) and message.kept
            ):
                if len(self.recent) == RECENT_ANNOUNCEMENTS:
                    self.complete_after = max(self.complete_after, self.recent[0][0])
                self.recent.append((position, message))
        return message

    def _arrived(self, entries: LogEntries) -> None:
        for _, line in entries:
            self._incoming.put_nowait(line)

    async def _receive(self) -> None:
        while True:
            line = await self._incoming.get()
            try:
                message = decode_message(line)
                if isinstance(message, StoredMessage):
                    stored = await self._fetch(message.key)
                    if stored is None:
                        continue
                    message = decode_message(stored)
                self._handle(message)
            except msgspec.DecodeError:
                logger.debug("A message of another replica cannot be read")

    async def _fetch(self, key: str) -> bytes | None:
        try:
            stored = await self.store.get(key)
            await self.store.delete(key)
        except StoreError as problem:
            logger.warning("A message of another replica is lost: %s", problem)
            return None
        return stored

    def _handle(self, message: Announcement | ReplicaMessage) -> None:
        handler = self._handlers.get(type(message))
        if handler is not None:
            self._call(lambda: handler(message), f"{type(message).__name__} of another replica")

    def _call(self, handler: Callable[[], None], subject: str) -> None:
        """Call a handler; one that fails affects no other message."""
        try:
            handler()
        except Exception:
            logger.exception("Handling %s failed", subject)


def _heartbeat(id: str) -> str:
    return f"replica:{id}"


def _inbox(id: str) -> str:
    return f"inbox:{id}"
