"""One session of the handshake era over HTTP: a connection whose requests have event streams of their own.

The session record and the event logs are in the store, so that they survive the process, and other replicas continue
them; calls in flight are only here.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from collections import deque
from collections.abc import Callable, Coroutine, Hashable
from typing import TYPE_CHECKING, Any

import msgspec

from dovetail.protocol.errors import outcome_unknown
from dovetail.protocol.subscriptions import LIST_KINDS, covering
from dovetail.protocol.terms import Terms
from dovetail.server.connection import ServerConnection
from dovetail.server.replicas.messages import (
    Announcement,
    ListChanged,
    ResourceUpdated,
    SessionNotification,
    StreamRead,
    StreamResumed,
)
from dovetail.server.replicas.replica import ID_LENGTH
from dovetail.server.session import Session
from dovetail.storage.contract import LogEntries, Store, StoreError, StoreUnavailable, Subscription
from dovetail.transports.http.server.resumable_stream import (
    CLOSING,
    MARK,
    MAX_BYTES,
    MAX_EVENTS,
    OPENING,
    LogTaken,
    ResumableStream,
)
from dovetail.types.serialization import dump
from dovetail.wire import codec
from dovetail.wire.jsonrpc import Id

from .stream_logs import LocalLog, StoredLog

if TYPE_CHECKING:
    from dovetail.server.core import ServerCore
    from dovetail.server.replicas.replica import Replica

MAX_ENDED = 16
MAX_ENDED_BYTES = 4_000_000
"""Streams of one session that have ended and can still be read again."""

MAX_UNREAD = 64
"""Messages kept for a client that has never opened a stream to read them."""

OWNER_CHECK_SECONDS = 1.0
"""Seconds between two checks that the replica which writes a stream is alive, while another one follows it."""

_EVENT_ID = re.compile(r"([0-9a-f]{1,32})_([0-9]{1,15})")
_STANDALONE = "0"
_HANDOVER_SECONDS = 0.1
_GONE = "the server process that worked on it has ended"


class StoredSession(msgspec.Struct, array_like=True):
    """A session as it is stored."""

    revision: str
    client: dict[str, object] | None
    capabilities: dict[str, object]
    principal: str | None
    ready: bool
    log_level: str | None
    subscribed: list[str]
    announced: int = 0
    """The position of the announcements when the session began: it is not told of those before."""


_encode = msgspec.json.Encoder().encode
decode_session = msgspec.json.Decoder(StoredSession).decode


def log_name(session: str, stream: str) -> str:
    """The name of the log of a stream."""
    return f"events:{session}:{stream}"


class HttpSession:
    """One session over HTTP; as the sender of its connection it carries the messages that belong to no request."""

    __slots__ = (
        *("_announced", "_changed_at", "_closed", "_core", "_ended", "_ended_bytes", "_followed", "_registered"),
        *("_replica", "_standalone", "_store", "_tasks", "_ttl", "busy", "client_key", "connection", "id"),
        *("open_streams", "principal", "stale", "state", "stored", "streams", "touched", "used"),
    )

    def __init__(
        self,
        id: str,
        core: ServerCore,
        principal: str | None,
        client_key: Hashable,
        store: Store,
        ttl: float,
        replica: Replica | None = None,
    ) -> None:
        self.id = id
        self.principal = principal
        self.client_key = client_key
        self.state = Session(core, principal, client_key=client_key)
        self.state.id = id
        self.connection = ServerConnection(core, self, self.state).connection
        if replica is not None:
            self.connection.name_requests(replica.next_request_prefix())
        self.streams: dict[str, ResumableStream] = {}
        """Streams of requests that a client can resume, by id."""
        self.busy = 0
        """HTTP requests that are being answered."""
        self.open_streams = 0
        """Streams that were opened with GET."""
        self.used = self.touched = self.state.loop.time()
        self.stored = b""
        """The record that this copy was made of."""
        self.stale = False
        """True if another replica has changed the record since."""
        self._changed_at = 0
        self._core = core
        self._replica = replica
        self._store = store
        self._ttl = ttl
        self._announced = 0 if replica is None else replica.position
        self._standalone: ResumableStream | None = None
        self._registered = False
        self._tasks: set[asyncio.Task[None]] | None = None
        self._followed: dict[str, Subscription] | None = None
        self._ended: deque[tuple[str, int]] | None = None
        self._ended_bytes = 0
        self._closed = False

    @property
    def terms(self) -> Terms | None:
        """The terms of the handshake, once it is made."""
        return self.state.lifecycle.terms

    @property
    def congested(self) -> bool:
        """True if the client does not read the messages that belong to no request."""
        return self._standalone is not None and self._standalone.congested

    @property
    def idle(self) -> bool:
        """True if no request is being served in it."""
        return not self.busy and not self.streams

    @property
    def listens(self) -> bool:
        """True if this process writes the client's stream for messages that belong to no request, among replicas."""
        return self._registered

    def outdated(self, known: int) -> None:
        """Another replica has changed the record, after it had received the announcement at a position."""
        self._changed_at = min(self._changed_at, known) if self.stale else known
        self.stale = True

    def send(self, line: bytes) -> None:
        """Send a message that belongs to no request.

        For a client that has opened no stream the newest are kept. Where there are other replicas, which may take over
        the stream, each says up to which announcement it is complete.
        """
        if self._replica is None:
            stream = self._standalone_stream()
            stream.send(line)
            stream.trim(MAX_UNREAD)
        elif self._standalone is not None:
            self._standalone.send(MARK + b"%d " % self._replica.position + line)

    def flush(self) -> None:
        """Nothing to do: streams write as messages come."""

    async def drained(self) -> None:
        """Wait until the client has caught up."""
        if self._standalone is not None:
            await self._standalone.drained()

    async def close(self) -> None:
        """End every stream; what was not delivered stays in the logs."""
        self.unregister()
        if self._standalone is not None:
            self._standalone.disconnect(None)
        for subscription in (self._followed or {}).values():
            subscription.close()
        for stream in list(self.streams.values()):
            stream.finish(None)
            await stream.store()
        self._closed = True
        tasks = list(self._tasks or ())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def end_standalone(self) -> None:
        """Close the connection of the stream for messages that belong to no request; its client may reconnect."""
        if self._standalone is not None and self.terms is not None:
            seconds = 1.0 if self._replica is None else _HANDOVER_SECONDS
            self._standalone.disconnect(seconds if self.terms.revision.sse_polling else None)

    async def drop_logs(self) -> None:
        """Remove the logs of the streams that were written here."""
        for id in (_STANDALONE, *self.streams, *(id for id, _ in self._ended or ())):
            await self._store.drop(self._name(id))

    async def open_stream(self, stream: ResumableStream) -> None:
        """Make a stream resumable, before its first event is written."""
        if stream.opened:
            return
        if not stream.id:
            id = os.urandom(6).hex()
            if self._replica is not None:
                id = self._replica.id + id
            stream.attach_log(id, self._log(id))
        self.streams[stream.id] = stream
        try:
            await stream.open_log()
        except StoreUnavailable:
            stream.attach_log(stream.id, LocalLog())
            await stream.open_log()

    async def standalone(self) -> ResumableStream:
        """The stream for messages that belong to no request, continued where its log ends."""
        if self._replica is not None:
            return await self._claim_standalone(self._replica)
        stream = self._standalone_stream()
        if not stream.opened and (last := await self._store.last(self._name(_STANDALONE))):
            stream.restore(last, ended=False)
        await stream.open_log()
        return stream

    def _standalone_stream(self) -> ResumableStream:
        if self._standalone is None:
            self._standalone = ResumableStream(_STANDALONE, self._log(_STANDALONE))
        return self._standalone

    async def _claim_standalone(self, replica: Replica) -> ResumableStream:
        """Become the writer of the stream, and add the announcements that the writer before has not."""
        if self._standalone is not None and not self._standalone.ended:
            return self._standalone
        name = self._name(_STANDALONE)
        last = await self._store.claim(name, replica.id, self._ttl)
        newest = await self._store.read(name, last - 1, 1) if last else []
        stream = ResumableStream(_STANDALONE, StoredLog(self._store, name, self._ttl, replica.id, last))
        if last:
            stream.restore(last, ended=False)
        else:
            await stream.open_log()
        if self._standalone is not None and not self._standalone.ended:  # another request was quicker
            return self._standalone
        self._standalone = stream
        # What the last entry says, if there is any, is at least as new as the beginning of the session.
        self._announced = max(self._announced, _announced_in(newest))
        self._catch_up(replica)
        return stream

    def _catch_up(self, replica: Replica) -> None:
        after, recent = self._announced, replica.recent
        stream = self._standalone
        assert stream is not None
        if not self._registered:
            self._registered = True
            self._core.add_session(self.state)
        if self._core.replaces_another or replica.complete_after > after:
            # Nobody knows any more what has changed meanwhile.
            self.state.subscriptions.everything_changed()
        for position, message in recent:
            if position > after:
                self._tell(message)
        # Even if there is nothing to tell: the next writer need not go back further than this.
        stream.send(MARK + b"%d " % replica.position)

    def _tell(self, message: Announcement) -> None:
        subscriptions = self.state.subscriptions
        if isinstance(message, ListChanged):
            if message.digest == self._core.list_digest(message.kind):
                subscriptions.list_changed(message.kind)
        elif isinstance(message, ResourceUpdated):
            if message.session in (None, self.id):
                subscriptions.resource_updated(message.uri)
        elif isinstance(message, SessionNotification) and message.session == self.id:
            self.send(message.line)

    def unregister(self) -> None:
        """Be told of changes no more: the client's stream is not here."""
        if self._registered:
            self._registered = False
            self._core.remove_session(self.state)

    async def find_event(self, event_id: str) -> tuple[ResumableStream, int] | None:
        """The stream and position of an event; None if what came after it is not kept any more."""
        match = _EVENT_ID.fullmatch(event_id)
        if match is None:
            return None
        id, position = match.group(1), int(match.group(2))
        if id == _STANDALONE:
            stream = await self.standalone()
        else:
            restored = self.streams.get(id) or await self._restored(id)
            if restored is None:
                return None
            stream = restored
        following = await self._store.read(self._name(id), position, 1)
        whole = not following or following[0][0] == position + 1
        return (stream, position) if whole and position <= stream.position else None

    async def disconnected(self, stream: ResumableStream) -> None:
        """A connection of a stream has ended: store what still comes, or only the rest of a stream that has ended."""
        if stream.connected:
            return
        if stream is self._standalone and self._replica is not None:
            # The next stream begins with what is announced from here on, wherever it is opened.
            self.unregister()
            self._standalone = None
        elif self._followed is not None and stream.id in self._followed:
            self._followed.pop(stream.id).close()
            self.streams.pop(stream.id, None)
        elif stream.ended:
            if stream.id in self.streams:
                await stream.store()
                await self._retire(stream)
        elif not self._closed:
            self._spawn(self._store_until_read(stream))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        if self._tasks is None:
            self._tasks = set()
        task = self.state.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _store_until_read(self, stream: ResumableStream) -> None:
        if await stream.store_until_read() and not stream.connected and stream.id in self.streams:
            await self._retire(stream)

    async def _retire(self, stream: ResumableStream) -> None:
        """A stream has ended: its log is kept for a while, in case its client did not get all of it."""
        self.streams.pop(stream.id, None)
        if self._ended is None:
            self._ended = deque()
        kept = min(stream.size, MAX_BYTES)
        self._ended.append((stream.id, kept))
        self._ended_bytes += kept
        while len(self._ended) > MAX_ENDED or (self._ended_bytes > MAX_ENDED_BYTES and len(self._ended) > 1):
            id, size = self._ended.popleft()
            self._ended_bytes -= size
            await self._store.drop(self._name(id))

    async def renew_logs(self) -> None:
        """Restart the time to live of the logs of its streams."""
        for id in (*self.streams, _STANDALONE):
            await self._store.append(self._name(id), (), self._ttl)

    def record(self) -> bytes:
        """The session as it is stored."""
        terms, state = self.terms, self.state
        assert terms is not None
        client = None if terms.client is None else dump(terms.client)
        return _encode(
            StoredSession(
                terms.revision.name,
                client,
                dump(terms.capabilities),
                self.principal,
                state.lifecycle.ready,
                state.log_level,
                state.subscriptions.subscribed,
                self._announced,
            )
        )

    def restore(self, encoded: bytes, stored: StoredSession, terms: Terms) -> None:
        """Continue a session that was stored, maybe by another process."""
        self.state.lifecycle.restore(terms, ready=stored.ready)
        self._announced = stored.announced
        self.refresh(encoded, stored)

    def refresh(self, encoded: bytes, stored: StoredSession) -> None:
        """Take over the record as it is stored, maybe by another replica."""
        changed_at = self._changed_at
        self.stored, self.stale = encoded, False
        lifecycle, subscriptions = self.state.lifecycle, self.state.subscriptions
        completed = stored.ready and not lifecycle.ready
        if completed:
            lifecycle.initialized()
        self.state.log_level = stored.log_level
        before, now = set(subscriptions.subscribed), set(stored.subscribed)
        for uri in before - now:
            subscriptions.remove(uri)
        for uri in now - before:
            subscriptions.add(uri)
        if self._registered and self._replica is not None:
            # What was announced after the handshake or the subscription, and before that was known here.
            self._tell_missed(self._replica, changed_at, now - before, lists=completed)

    def _tell_missed(self, replica: Replica, changed_at: int, added: set[str], *, lists: bool) -> None:
        subscriptions = self.state.subscriptions
        if added and replica.complete_after > changed_at:
            # Updates of them may be among the announcements that are not remembered.
            for uri in added:
                subscriptions.resource_updated(uri)
        if lists and replica.complete_after > self._announced:
            for kind in LIST_KINDS:
                subscriptions.list_changed(kind)
        if added or lists:
            for position, message in replica.recent:
                if isinstance(message, ResourceUpdated):
                    if position > changed_at and covering(added, message.uri):
                        self._tell(message)
                elif lists and position > self._announced and isinstance(message, ListChanged):
                    self._tell(message)

    async def _restored(self, id: str) -> ResumableStream | None:
        """A stream that has ended, that another replica writes, or whose process has ended."""
        last = await self._store.last(self._name(id))
        if last == 0:
            return None
        log = self._log(id, last)
        stream = ResumableStream(id, log)
        (_, newest), *_ = await log.read(last - 1, 1)
        stream.restore(last, ended=newest == CLOSING)
        if stream.ended:
            return stream
        replica, owner = self._replica, id[:ID_LENGTH]
        if replica is not None and len(id) > ID_LENGTH and await replica.is_alive(owner):
            return await self._follow(replica, owner, stream, last)
        if (live := self.streams.get(id)) is not None:  # another request was quicker
            return live
        await self._end_abandoned(stream, log)
        return stream

    async def _follow(self, replica: Replica, owner: str, stream: ResumableStream, last: int) -> ResumableStream:
        """Follow a stream that another replica writes, for as long as it is alive."""
        id = stream.id
        subscription = await self._store.follow(self._name(id), last, stream.advance)
        if (live := self.streams.get(id)) is not None:  # another request was quicker
            subscription.close()
            return live
        self.streams[id] = stream
        if self._followed is None:
            self._followed = {}
        self._followed[id] = subscription
        stream.on_delivered = self._report_to(replica, owner, id)
        self._spawn(self._watch_owner(replica, owner, stream))
        self._spawn(_send(replica, owner, StreamResumed(self.id, id)))
        return stream

    def _report_to(self, replica: Replica, owner: str, id: str) -> Callable[[int, int], None]:
        return lambda position, size: self._spawn(_send(replica, owner, StreamRead(self.id, id, position, size)))

    async def _watch_owner(self, replica: Replica, owner: str, stream: ResumableStream) -> None:
        while not stream.ended and self._followed is not None and stream.id in self._followed:
            await asyncio.sleep(OWNER_CHECK_SECONDS)
            try:
                if stream.ended or await replica.is_alive(owner):
                    continue
                await self._end_abandoned(stream, self._log(stream.id, stream.position))
            except StoreError:
                continue

    async def _end_abandoned(self, stream: ResumableStream, log: StoredLog) -> None:
        """Answer the requests of a stream whose process has ended with an error; of several replicas, one does."""
        lines = [*await _unanswered(log), CLOSING]
        try:
            last = await log.append(lines, MAX_EVENTS, close=True)
        except LogTaken:
            entries: LogEntries = await log.read(stream.position, MAX_EVENTS)
        else:
            entries = list(enumerate(lines, last - len(lines) + 1))
        if entries and entries[-1][0] > stream.position:
            stream.advance(entries)

    def _log(self, stream: str, last: int = 0) -> StoredLog:
        return StoredLog(self._store, self._name(stream), self._ttl, last=last)

    def _name(self, stream: str) -> str:
        return log_name(self.id, stream)


async def _send(replica: Replica, owner: str, message: StreamRead | StreamResumed) -> None:
    """Tell the writer of a stream; if that fails, it waits for the next report, or for its client to come back."""
    with contextlib.suppress(StoreError):
        await replica.send(owner, message)


def _announced_in(entries: LogEntries) -> int:
    """The position of the announcement up to which a log is complete."""
    for _, entry in entries:
        if entry.startswith(MARK):
            return int(entry[1:].partition(b" ")[0])
    return 0


async def _unanswered(log: StoredLog) -> list[bytes]:
    """Errors for the requests of a stream whose process has ended."""
    openings = [line for _, line in await log.read(0, 2 * MAX_EVENTS) if line.startswith(OPENING)]
    if not openings:
        return []
    ids: list[Id] = msgspec.json.decode(openings[-1][1:], type=list[Id])
    problem = outcome_unknown(_GONE)
    return [codec.failure(id, problem.code, problem.message, problem.data, null_id=False) for id in ids]
