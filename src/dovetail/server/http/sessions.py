"""Sessions of the handshake era over HTTP: each a connection whose requests have event streams of their own.

The session record and the event logs are in the store, so that they survive the process; calls in flight are only here.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections import OrderedDict, deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from dovetail.protocol.errors import INTERNAL_ERROR
from dovetail.protocol.terms import Terms
from dovetail.server.connection import ServerConnection
from dovetail.server.session import Session
from dovetail.storage.contract import Store
from dovetail.transports.http.server.resumable_stream import CLOSING, MAX_BYTES, MAX_EVENTS, OPENING, ResumableStream
from dovetail.types.capabilities import ClientCapabilities, Implementation
from dovetail.types.serialization import dump, load
from dovetail.wire import codec
from dovetail.wire.jsonrpc import Id

from .options import Settings

if TYPE_CHECKING:
    from dovetail.server.core import ServerCore

MAX_ENDED = 16
MAX_ENDED_BYTES = 4_000_000
"""Streams of one session that have ended and can still be read again."""

MAX_UNREAD = 64
"""Messages kept for a client that has never opened a stream to read them."""

EVICTABLE_SECONDS = 60.0
"""Seconds that a session must be idle before it is ended to make room for a new one."""

_EVENT_ID = re.compile(r"([0-9a-f]{1,16})_([0-9]{1,15})")
_STANDALONE = "0"


class TooManySessions(Exception):
    """There is no room for another session."""


class StoredSession(msgspec.Struct, array_like=True):
    """A session as it is stored."""

    revision: str
    client: dict[str, object] | None
    capabilities: dict[str, object]
    principal: str | None
    ready: bool
    log_level: str | None
    subscribed: list[str]


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(StoredSession).decode


class StoredLog:
    """The log of one stream in the store."""

    __slots__ = ("_name", "_store", "_ttl")

    def __init__(self, store: Store, name: str, ttl: float) -> None:
        self._store = store
        self._name = name
        self._ttl = ttl

    async def append(self, entries: Sequence[bytes], keep: int) -> int:
        """Add entries and drop the oldest."""
        return await self._store.append(self._name, entries, self._ttl, keep)

    async def read(self, after: int, limit: int) -> list[tuple[int, bytes]]:
        """Entries after a position."""
        return await self._store.read(self._name, after, limit)


class HttpSession:
    """One session over HTTP; as the sender of its connection it carries the messages that belong to no request."""

    __slots__ = (
        *(
            "_closed",
            "_ended",
            "_ended_bytes",
            "_standalone",
            "_store",
            "_storing",
            "_ttl",
            "busy",
            "connection",
        ),
        *("id", "open_streams", "principal", "state", "streams", "touched", "used"),
    )

    def __init__(self, id: str, core: ServerCore, principal: str | None, store: Store, ttl: float) -> None:
        self.id = id
        self.principal = principal
        self.state = Session(core.served, principal)
        self.connection = ServerConnection(core, self, self.state).connection
        self.streams: dict[str, ResumableStream] = {}
        """Streams of requests that a client can resume, by id."""
        self.busy = 0
        """HTTP requests that are being answered."""
        self.open_streams = 0
        """Streams that were opened with GET."""
        self.used = self.touched = self.state.loop.time()
        self._store = store
        self._ttl = ttl
        self._standalone: ResumableStream | None = None
        self._storing: set[asyncio.Task[None]] | None = None
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

    def send(self, line: bytes) -> None:
        """Send a message that belongs to no request; for a client that has opened no stream the newest are kept."""
        stream = self._standalone_stream()
        stream.send(line)
        stream.trim(MAX_UNREAD)

    def flush(self) -> None:
        """Nothing to do: streams write as messages come."""

    async def drained(self) -> None:
        """Wait until the client has caught up."""
        if self._standalone is not None:
            await self._standalone.drained()

    async def close(self) -> None:
        """End every stream; what was not delivered stays in the logs."""
        if self._standalone is not None:
            self._standalone.disconnect(None)
        for stream in list(self.streams.values()):
            stream.finish(None)
            await stream.store()
        self._closed = True
        storing = list(self._storing or ())
        for task in storing:
            task.cancel()
        await asyncio.gather(*storing, return_exceptions=True)

    def end_standalone(self) -> None:
        """Close the connection of the stream for messages that belong to no request; its client may reconnect."""
        if self._standalone is not None and self.terms is not None:
            self._standalone.disconnect(1.0 if self.terms.revision.sse_polling else None)

    async def open_stream(self, stream: ResumableStream) -> None:
        """Make a stream resumable, before its first event is written."""
        if not stream.opened:
            if not stream.id:
                id = os.urandom(6).hex()
                stream.attach_log(id, self._log(id))
            self.streams[stream.id] = stream
            await stream.open_log()

    async def standalone(self) -> ResumableStream:
        """The stream for messages that belong to no request, continued where its log ends."""
        stream = self._standalone_stream()
        if not stream.opened and (last := await self._store.last(self._name(_STANDALONE))):
            stream.restore(last, ended=False)
        await stream.open_log()
        return stream

    def _standalone_stream(self) -> ResumableStream:
        if self._standalone is None:
            self._standalone = ResumableStream(_STANDALONE, self._log(_STANDALONE))
        return self._standalone

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
        if stream.ended:
            if stream.id in self.streams:
                await stream.store()
                await self._retire(stream)
        elif not self._closed:
            if self._storing is None:
                self._storing = set()
            task = self.state.loop.create_task(self._store_until_read(stream))
            self._storing.add(task)
            task.add_done_callback(self._storing.discard)

    async def _store_until_read(self, stream: ResumableStream) -> None:
        await stream.store_until_read()
        if stream.ended and not stream.connected and stream.id in self.streams:
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
            )
        )

    def restore(self, stored: StoredSession, terms: Terms) -> None:
        """Continue a session that was stored, maybe by another process."""
        self.state.lifecycle.restore(terms, ready=stored.ready)
        self.state.log_level = stored.log_level
        for uri in stored.subscribed:
            self.state.subscriptions.add(uri)

    async def _restored(self, id: str) -> ResumableStream | None:
        """A stream that has ended, or whose process has: then its requests are answered with an error now."""
        log = self._log(id)
        last = await self._store.last(self._name(id))
        if last == 0:
            return None
        stream = ResumableStream(id, log)
        (_, newest), *_ = await log.read(last - 1, 1)
        stream.restore(last, ended=newest == CLOSING)
        if not stream.ended:
            if (live := self.streams.get(id)) is not None:  # another request was quicker
                return live
            self.streams[id] = stream
            for line in await _unanswered(log):
                stream.send(line)
            stream.finish(None)
        return stream

    def _log(self, stream: str) -> StoredLog:
        return StoredLog(self._store, self._name(stream), self._ttl)

    def _name(self, stream: str) -> str:
        return f"{log_prefix(self.id)}{stream}"


async def _unanswered(log: StoredLog) -> list[bytes]:
    """Errors for the requests of a stream whose process has ended."""
    openings = [line for _, line in await log.read(0, 2 * MAX_EVENTS) if line.startswith(OPENING)]
    if not openings:
        return []
    ids: list[Id] = msgspec.json.decode(openings[-1][1:], type=list[Id])
    message = "The server was restarted while it worked on this request"
    return [codec.failure(id, INTERNAL_ERROR, message, null_id=False) for id in ids]


def log_prefix(session: str) -> str:
    """The prefix of the names of a session's logs."""
    return f"events:{session}:"


def _key(session: str) -> str:
    return f"session:{session}"


class Sessions:
    """The sessions of one application, by id and principal; those that are not used expire."""

    def __init__(self, core: ServerCore, store: Store, settings: Settings, prefix: str = "") -> None:
        self._core = core
        self._prefix = prefix
        self._store = store
        self._settings = settings
        self._live: OrderedDict[str, HttpSession] = OrderedDict()
        """The longest unused first."""
        self._each: dict[str | None, int] = {}
        self._sweep: asyncio.TimerHandle | None = None
        self._chores: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._live)

    async def begin(self, principal: str | None) -> HttpSession:
        """A session that cannot be found yet: `register` adds it when its handshake is made."""
        settings = self._settings
        full = principal is not None and self._each.get(principal, 0) >= settings.max_sessions_each
        await self._make_room(principal, full, same=True)
        await self._make_room(principal, len(self._live) >= settings.max_sessions, same=False)
        id = self._prefix + os.urandom(16).hex()
        return HttpSession(id, self._core, principal, self._store, settings.session_idle)

    async def register(self, session: HttpSession) -> None:
        """Add a session whose handshake is made."""
        await self._save(session)
        self._add(session)

    async def find(self, id: str, principal: str | None) -> HttpSession | None:
        """The session with an id, if it belongs to this principal."""
        session = self._live.get(id)
        if session is None:
            session = await self._restore(id)
        if session is None or session.principal != principal:
            return None
        self._live.move_to_end(id)
        now = asyncio.get_running_loop().time()
        session.used = now
        if now - session.touched > self._settings.session_idle / 4:
            session.touched = now
            await self._store.touch(_key(id), self._settings.session_idle)
        return session

    async def changed(self, session: HttpSession) -> None:
        """Store a session that has changed; one that has ended meanwhile stays ended."""
        if session.id in self._live:
            await self._save(session)

    async def _save(self, session: HttpSession) -> None:
        await self._store.put(_key(session.id), session.record(), self._settings.session_idle)

    async def end(self, session: HttpSession) -> None:
        """End a session: its calls are cancelled, its streams end, and its id is unknown from now on."""
        self._remove(session)
        await self._store.delete(_key(session.id))
        await session.connection.close()
        await self._store.drop_prefix(log_prefix(session.id))

    async def close(self) -> None:
        """Close every session; what is stored stays, for the next process."""
        if self._sweep is not None:
            self._sweep.cancel()
        live = list(self._live.values())
        for session in live:
            self._remove(session)
        await asyncio.gather(*(session.connection.close() for session in live))
        if self._chores:
            await asyncio.wait(self._chores, timeout=1)

    def live(self) -> list[HttpSession]:
        """The sessions in this process."""
        return list(self._live.values())

    def _add(self, session: HttpSession) -> None:
        self._live[session.id] = session
        self._each[session.principal] = self._each.get(session.principal, 0) + 1
        self._core.add_session(session.state)
        if self._sweep is None:
            self._schedule()

    def _remove(self, session: HttpSession) -> None:
        if self._live.pop(session.id, None) is not None:
            left = self._each[session.principal] - 1
            if left:
                self._each[session.principal] = left
            else:
                del self._each[session.principal]
            self._core.remove_session(session.state)

    async def _restore(self, id: str) -> HttpSession | None:
        encoded = await self._store.get(_key(id))
        if encoded is None:
            return None
        if (live := self._live.get(id)) is not None:  # another request was quicker
            return live
        stored = _decode(encoded)
        revision = self._core.served.get(stored.revision)
        if revision is None:
            return None
        client = None if stored.client is None else load(Implementation, stored.client)
        terms = Terms(revision, client, load(ClientCapabilities, stored.capabilities), None, stored.principal)
        session = HttpSession(id, self._core, stored.principal, self._store, self._settings.session_idle)
        session.restore(stored, terms)
        self._add(session)
        return session

    async def _make_room(self, principal: str | None, full: bool, *, same: bool) -> None:
        """End the longest idle session where there are too many; raise if none is idle."""
        if not full:
            return
        now = asyncio.get_running_loop().time()
        for session in self._live.values():
            if now - session.used < EVICTABLE_SECONDS:
                break
            if session.idle and (not same or session.principal == principal):
                await self.end(session)
                return
        raise TooManySessions

    async def _renew(self, session: HttpSession) -> None:
        """Extend what is stored of a session while a stream is open for its client."""
        session.touched = session.used
        await self._store.touch(_key(session.id), self._settings.session_idle)
        await session.renew_logs()

    def _schedule(self) -> None:
        loop = asyncio.get_running_loop()
        self._sweep = loop.call_later(max(0.05, self._settings.session_idle / 10), self._sweep_now)

    def _sweep_now(self) -> None:
        """End the sessions that have not been used for too long."""
        self._sweep = None
        loop = asyncio.get_running_loop()
        now, idle = loop.time(), self._settings.session_idle
        for session in list(self._live.values()):
            if session.used > now - idle / 2:
                break
            if session.busy:
                session.used = now
                self._live.move_to_end(session.id)
                work = self._renew(session)
            elif session.used <= now - idle:
                # Its calls too, if there are any: a client that wants their outcome would have come back.
                work = self.end(session)
            else:
                continue
            task = loop.create_task(work)
            self._chores.add(task)
            task.add_done_callback(self._chores.discard)
        if self._live:
            self._schedule()
