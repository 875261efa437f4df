"""Sessions of the handshake era over HTTP, each a connection whose requests have streams of their own.

What a session is lives in the store, so that it survives the process; what it does right now lives here.
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
from dovetail.runtime.connection import Connection
from dovetail.server.session import ServerSession
from dovetail.storage.contract import Store
from dovetail.transports.base import Receiver
from dovetail.transports.http.server.event_stream import CLOSING, MAX_BYTES, MAX_EVENTS, OPENING, Stream
from dovetail.types.capabilities import ClientCapabilities, Implementation
from dovetail.types.serialization import dump, load
from dovetail.wire import codec
from dovetail.wire.jsonrpc import Id

from .options import Settings

if TYPE_CHECKING:
    from dovetail.server.app import Server

MAX_ENDED = 16
MAX_ENDED_BYTES = 4_000_000
"""Streams of one session that have ended and can still be read again."""

MAX_UNHEARD = 64
"""Messages kept for a client that has never opened a stream to hear them."""

EVICTABLE_SECONDS = 60.0
"""How long a session must be idle to give way to a new one when there are too many."""

_EVENT_ID = re.compile(r"([0-9a-f]{1,16})_([0-9]{1,15})")
_STANDALONE = "0"


class TooManySessions(Exception):
    """There is no room for another session."""


class Record(msgspec.Struct, array_like=True):
    """What a session is, as it is stored."""

    revision: str
    client: dict[str, object] | None
    capabilities: dict[str, object]
    principal: str | None
    ready: bool
    log_level: str | None
    watched: list[str]


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Record).decode


class StoredLog:
    """The log of one stream in the store."""

    __slots__ = ("_name", "_store", "_ttl")

    def __init__(self, store: Store, name: str, ttl: float) -> None:
        self._store = store
        self._name = name
        self._ttl = ttl

    async def append(self, entries: Sequence[bytes], keep: int) -> int:
        """Add entries and let go of the oldest."""
        return await self._store.append(self._name, entries, self._ttl, keep)

    async def read(self, after: int, limit: int) -> list[tuple[int, bytes]]:
        """Entries behind a position."""
        return await self._store.read(self._name, after, limit)


class HttpSession:
    """One session; as a channel it carries what belongs to no request, to whoever has opened a stream for that."""

    __slots__ = (
        "_closed",
        "_ended",
        "_ended_bytes",
        "_keepers",
        "_standalone",
        "_store",
        "_ttl",
        "busy",
        "connection",
        "id",
        "listening",
        "principal",
        "service",
        "streams",
        "touched",
        "used",
    )

    def __init__(self, id: str, server: Server, principal: str | None, store: Store, ttl: float) -> None:
        self.id = id
        self.principal = principal
        self.service = ServerSession(server, principal)
        self.connection = Connection(self, self.service)
        self.service.attach(self.connection)
        self.streams: dict[str, Stream] = {}
        self.busy = 0
        """HTTP requests that are being answered."""
        self.listening = 0
        """Streams that were opened with GET."""
        self.used = self.touched = asyncio.get_running_loop().time()
        self._store = store
        self._ttl = ttl
        self._standalone: Stream | None = None
        self._keepers: set[asyncio.Task[None]] | None = None
        self._ended: deque[tuple[str, int]] | None = None
        self._ended_bytes = 0
        self._closed = False

    @property
    def congested(self) -> bool:
        """Whether what belongs to no request is not read."""
        return self._standalone is not None and self._standalone.congested

    @property
    def idle(self) -> bool:
        """Whether nothing goes on in it."""
        return not self.busy and not self.streams

    def open(self, receiver: Receiver) -> None:
        """Nothing is read here: requests bring their messages by themselves."""

    def send(self, line: bytes) -> None:
        """A message that belongs to no request; a client that never listens gets the newest of them."""
        stream = self._standalone
        if stream is None:
            stream = self._standalone = Stream(_STANDALONE, self._log(_STANDALONE))
        stream.send(line)
        stream.forget_all_but(MAX_UNHEARD)

    def flush(self) -> None:
        """Streams write by themselves."""

    async def drained(self) -> None:
        """Wait until it is read."""
        if self._standalone is not None:
            await self._standalone.drained()

    def pause(self) -> None:
        """Nothing is read here."""

    def resume(self) -> None:
        """Nothing is read here."""

    async def close(self) -> None:
        """End every stream; what they still had to say stays in their logs."""
        if self._standalone is not None:
            self._standalone.let_go(None)
        for stream in list(self.streams.values()):
            stream.finish(None)
            await stream.store()
        self._closed = True
        keepers = list(self._keepers or ())
        for keeper in keepers:
            keeper.cancel()
        await asyncio.gather(*keepers, return_exceptions=True)

    def end_standalone(self) -> None:
        """End the connection of the stream for what belongs to no request; its client may come back to it."""
        terms = self.service.terms
        if self._standalone is not None and terms is not None:
            self._standalone.let_go(1.0 if terms.revision.sse_polling else None)

    def begin_stream(self, *, resumable: bool) -> Stream:
        """A stream for a request."""
        id = os.urandom(6).hex()
        return Stream(id, self._log(id) if resumable else None)

    async def standalone(self) -> Stream:
        """The stream for what belongs to no request, its log taken up where it was left."""
        stream = self._standalone
        if stream is None:
            stream = self._standalone = Stream(_STANDALONE, self._log(_STANDALONE))
        if not stream.opened and (last := await self._store.last(self._name(_STANDALONE))):
            stream.restore(last, ended=False)
        await stream.open_log(b"[]")
        return stream

    async def find_stream(self, event_id: str) -> tuple[Stream, int] | None:
        """The stream that an event was on, and its position there; none if what came after it is not kept any more."""
        match = _EVENT_ID.fullmatch(event_id)
        if match is None:
            return None
        id, position = match.group(1), int(match.group(2))
        if id == _STANDALONE:
            stream = await self.standalone()
        else:
            found = self.streams.get(id) or await self._restored(id)
            if found is None:
                return None
            stream = found
        following = await self._store.read(self._name(id), position, 1)
        whole = not following or following[0][0] == position + 1
        return (stream, position) if whole and position <= stream.position else None

    def keep(self, stream: Stream) -> None:
        """Go on writing a stream into its log while nobody reads it."""
        if self._closed:
            return  # nothing more will come
        if self._keepers is None:
            self._keepers = set()
        task = asyncio.get_running_loop().create_task(self._keep(stream))
        self._keepers.add(task)
        task.add_done_callback(self._keepers.discard)

    async def _keep(self, stream: Stream) -> None:
        await stream.keep()
        if stream.ended and not stream.connected and stream.id in self.streams:
            await self.retire(stream)

    async def retire(self, stream: Stream) -> None:
        """A stream has ended: its log is kept for a while, should its reader not have got all of it."""
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
        """Give the logs of its streams their whole time again."""
        for id in (*self.streams, _STANDALONE):
            await self._store.append(self._name(id), (), self._ttl)

    def record(self) -> bytes:
        """What is stored of it."""
        terms = self.service.terms
        assert terms is not None
        client = None if terms.client is None else dump(terms.client)
        return _encode(
            Record(
                terms.revision.name,
                client,
                dump(terms.capabilities),
                self.principal,
                self.service.ready,
                self.service.log_level,
                self.service.subscriptions.watched,
            )
        )

    def take_up(self, record: Record, terms: Terms) -> None:
        """Be the session of a record."""
        self.service.restore(terms, ready=record.ready)
        self.service.log_level = record.log_level
        for uri in record.watched:
            self.service.subscriptions.watch(uri)

    async def _restored(self, id: str) -> Stream | None:
        """A stream that has ended, or whose process has: then its requests are answered with an error now."""
        log = self._log(id)
        last = await self._store.last(self._name(id))
        if last == 0:
            return None
        stream = Stream(id, log)
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
        return f"{events_of(self.id)}{stream}"


async def _unanswered(log: StoredLog) -> list[bytes]:
    """Errors for the requests of a stream that nobody works on any more."""
    openings = [line for _, line in await log.read(0, 2 * MAX_EVENTS) if line.startswith(OPENING)]
    if not openings:
        return []
    ids: list[Id] = msgspec.json.decode(openings[-1][1:], type=list[Id])
    message = "The server was restarted while it worked on this request"
    return [codec.failure(id, INTERNAL_ERROR, message, null_id=False) for id in ids]


def events_of(session: str) -> str:
    """What the names of a session's logs begin with."""
    return f"events:{session}:"


def _key(session: str) -> str:
    return f"session:{session}"


class Sessions:
    """The sessions of one application: found by id and principal, ended when nobody uses them."""

    def __init__(self, server: Server, store: Store, settings: Settings, prefix: str = "") -> None:
        self._server = server
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
        """A session that is not known yet: `register` makes it so when its handshake is made."""
        settings = self._settings
        full = principal is not None and self._each.get(principal, 0) >= settings.max_sessions_each
        await self._make_room(principal, full, same=True)
        await self._make_room(principal, len(self._live) >= settings.max_sessions, same=False)
        id = self._prefix + os.urandom(16).hex()
        return HttpSession(id, self._server, principal, self._store, settings.session_idle)

    async def register(self, session: HttpSession) -> None:
        """The handshake is made: the client is told the id, and the session may be used."""
        await self._save(session)
        self._add(session)

    async def find(self, id: str, principal: str | None) -> HttpSession | None:
        """The session with an id, which must belong to this principal; nobody learns of others."""
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
        """What a session is has changed; one that has ended meanwhile stays ended."""
        if session.id in self._live:
            await self._save(session)

    async def _save(self, session: HttpSession) -> None:
        await self._store.put(_key(session.id), session.record(), self._settings.session_idle)

    async def end(self, session: HttpSession) -> None:
        """End a session: its calls are stopped, its streams end, and its id means nothing any more."""
        self._remove(session)
        await self._store.delete(_key(session.id))
        await session.connection.close()
        await self._store.drop_prefix(events_of(session.id))

    async def close(self) -> None:
        """Let go of every session; what is stored stays, for the next process."""
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
        self._server.enrol(session.service)
        if self._sweep is None:
            self._schedule()

    def _remove(self, session: HttpSession) -> None:
        if self._live.pop(session.id, None) is not None:
            left = self._each[session.principal] - 1
            if left:
                self._each[session.principal] = left
            else:
                del self._each[session.principal]
            self._server.dismiss(session.service)

    async def _restore(self, id: str) -> HttpSession | None:
        stored = await self._store.get(_key(id))
        if stored is None:
            return None
        if (live := self._live.get(id)) is not None:  # another request was quicker
            return live
        record = _decode(stored)
        revision = self._server.served.get(record.revision)
        if revision is None:
            return None
        client = None if record.client is None else load(Implementation, record.client)
        terms = Terms(revision, client, load(ClientCapabilities, record.capabilities), None, record.principal)
        session = HttpSession(id, self._server, record.principal, self._store, self._settings.session_idle)
        session.take_up(record, terms)
        self._add(session)
        return session

    async def _make_room(self, principal: str | None, full: bool, *, same: bool) -> None:
        """Where there are too many sessions, the longest idle one gives way; without one there is no room."""
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
        """What is stored of a session must not end before the stream that is open for its client does."""
        session.touched = session.used
        await self._store.touch(_key(session.id), self._settings.session_idle)
        await session.renew_logs()

    def _schedule(self) -> None:
        loop = asyncio.get_running_loop()
        self._sweep = loop.call_later(max(0.05, self._settings.session_idle / 10), self._sweep_now)

    def _sweep_now(self) -> None:
        """End what nobody has used for too long."""
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
                # Its calls too, if there are any: who wants their outcome would have come back.
                work = self.end(session)
            else:
                continue
            task = loop.create_task(work)
            self._chores.add(task)
            task.add_done_callback(self._chores.discard)
        if self._live:
            self._schedule()
