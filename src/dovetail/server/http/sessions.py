"""Sessions of the handshake era over HTTP, by id and principal; those that are not used expire.

A session is one record in the store. This process has a copy of each session that it has served lately. Where other
replicas share the store, a change is announced to them, the limits are counted in the store, and a session that is not
used here any more is only forgotten here.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import secrets
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Generator, Hashable
from typing import TYPE_CHECKING, Any

from dovetail.protocol.client_address import client_text
from dovetail.protocol.peer import CANCELLED
from dovetail.protocol.subscriptions import LIST_KINDS
from dovetail.protocol.terms import Terms
from dovetail.server.replicas.messages import (
    RequestCancelled,
    SessionChanged,
    SessionDeleted,
    SessionMessage,
    SessionNotification,
    StreamRead,
    StreamResumed,
)
from dovetail.server.session import Session
from dovetail.storage.contract import Store, StoreError
from dovetail.transports.http.server.event_stream import EventStream
from dovetail.types.capabilities import ClientCapabilities, Implementation
from dovetail.types.serialization import load
from dovetail.wire import codec
from dovetail.wire.jsonrpc import Message, Notification, Request

from .client_limit import ClientLimit
from .http_session import HttpSession, StoredSession, decode_session
from .options import Settings

if TYPE_CHECKING:
    from dovetail.protocol.request_guard import Refusal
    from dovetail.server.core import ServerCore
    from dovetail.server.replicas.replica import Replica

    from .request import HttpRequest

EVICTABLE_SECONDS = 60.0
"""Seconds that a session must be idle before it is ended to make room for a new one."""

_RENEWALS = 4
"""A session that is used is renewed so many times in the time after which an unused one ends."""

_HANDSHAKE_SECONDS = 0.5
"""Seconds between two looks at the record of a session whose client opens a stream before it confirms the handshake."""

_ATTEMPTS = 20
_GROUP = "sessions"


class TooManySessions(Exception):
    """There is no room for another session; `refusal` is the response."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


class Sessions:
    """The sessions of one application that this process has a copy of."""

    def __init__(self, core: ServerCore, store: Store, settings: Settings, replica: Replica | None = None) -> None:
        self._core = core
        self._store = store
        self._settings = settings
        self._replica = replica
        self._live: OrderedDict[str, HttpSession] = OrderedDict()
        """The longest unused first."""
        self._limit = ClientLimit(
            "sessions",
            settings.max_sessions,
            settings.max_sessions_each,
            option="max_sessions",
            retry_after=int(EVICTABLE_SECONDS),
        )
        self._announced: dict[str, list[list[SessionChanged | SessionDeleted]]] = {}
        """By session, for each read of its record that is under way: what other replicas announced since it began."""
        self._sweep: asyncio.TimerHandle | None = None
        self._chores: set[asyncio.Task[None]] = set()
        if replica is not None:
            replica.on(SessionChanged, self._changed_elsewhere)
            replica.on(SessionDeleted, self._deleted)
            replica.on(RequestCancelled, self._cancelled)
            replica.on(SessionNotification, self._notified)
            replica.on(SessionMessage, self._answered)
            replica.on(StreamRead, self._read_elsewhere)
            replica.on(StreamResumed, self._resumed_elsewhere)
            replica.on_gap["sessions"] = self._missed_announcements

    def __len__(self) -> int:
        return len(self._live)

    async def begin(self, principal: str | None, client_key: Hashable) -> HttpSession:
        """A session that cannot be found yet: `register` adds it when its handshake is made."""
        if self._replica is None:
            if self._limit.is_full_for(client_key):
                await self._make_room(client_key, same=True)
            if self._limit.is_full:
                await self._make_room(client_key, same=False)
        return self._new(secrets.token_urlsafe(16), principal, client_key)

    async def register(self, session: HttpSession) -> None:
        """Add a session whose handshake is made; raises `TooManySessions`."""
        session.stored = session.record()
        if self._replica is None:
            await self._store.put(_key(session.id), session.stored, self._settings.session_idle)
        else:
            await self._register_shared(session)
        self._add(session)

    async def find(self, request: HttpRequest, id: str) -> HttpSession | None:
        """The session with an id, if it belongs to the principal of this request."""
        session = self._live.get(id)
        # A handshake that was completed at another replica is not announced, since every session has one.
        again = self._replica is not None and session is not None and _is_incomplete(session, request)
        return await self._find(id, request.principal, request.client_key, again=again)

    async def find_for(self, id: str, principal: str | None) -> HttpSession | None:
        """The session of a request that another replica has passed on, if it belongs to a principal."""
        session = self._live.get(id)
        return await self._find(
            id, principal, principal, again=session is not None and not session.state.lifecycle.ready
        )

    async def _find(self, id: str, principal: str | None, client_key: Hashable, *, again: bool) -> HttpSession | None:
        session = self._live.get(id)
        if session is None:
            session = await self._restore(id, client_key)
        elif session.stale or again:
            session = await self._refresh(session)
        if session is None or session.principal != principal:
            return None
        self._live.move_to_end(id)
        now = asyncio.get_running_loop().time()
        session.used = now
        if now - session.touched > self._settings.session_idle / _RENEWALS:
            session.touched = now
            await self._touch(session)
        return session

    async def changed(self, session: HttpSession, message: Request | Notification) -> bool:
        """Store a session that an accepted message has changed; False if it has ended meanwhile.

        Another replica may have changed it at the same time: then the message is applied to what that one has stored.
        """
        if session.id not in self._live:
            return False
        idle = self._settings.session_idle
        for _ in range(_ATTEMPTS):
            # Again, because another request may have read the session anew meanwhile, without this change.
            CHANGES[message.method](session.state, message.params)
            record = session.record()
            if record == session.stored:
                return True
            expected = session.stored
            known = 0 if self._replica is None else self._replica.position
            with self._announcements(session.id) as announced:
                replaced = await self._store.replace(_key(session.id), record, idle, expected=expected)
            if replaced:
                # Whatever another request has read meanwhile, this is what was stored then.
                session.refresh(record, decode_session(record))
                _mark(session, announced)
                if self._replica is not None and message.method != "notifications/initialized":
                    # The next request of the client may reach a replica that serves the session from its copy.
                    await self._replica.announce_and_wait(SessionChanged(session.id, self._replica.id, known))
                return True
            current = await self._store.get(_key(session.id))
            if current is None:
                self._forget(session)
                return False
            session.refresh(current, decode_session(current))
        raise StoreError("The session is being changed by too many requests at once")

    async def end(self, session: HttpSession) -> None:
        """End a session: its calls are cancelled, its streams end, and its id is unknown from now on."""
        self._remove(session)
        await self._store.delete(_key(session.id))
        if self._replica is not None:
            self._replica.announce(SessionDeleted(session.id))
            await self._leave(session.id, session.client_key)
        await _close_ended(session)

    async def close(self) -> None:
        """Close every session; what is stored stays, for the next process."""
        if self._sweep is not None:
            self._sweep.cancel()
        live = list(self._live.values())
        for session in live:
            self._remove(session, ended=False)
        await asyncio.gather(*(session.connection.close() for session in live))
        if self._chores:
            await asyncio.wait(self._chores, timeout=1)

    def live(self) -> list[HttpSession]:
        """The sessions in this process."""
        return list(self._live.values())

    def watch(self, session: HttpSession) -> None:
        """Keep a session up to date whose stream has just been opened here.

        Other replicas may have changed it since it was read, or may complete its handshake, which is not announced.
        """
        if self._replica is not None and (session.stale or not session.state.lifecycle.ready):
            self._spawn(self._until_current(session))

    async def _until_current(self, session: HttpSession) -> None:
        await self._refresh_listening(session)
        while session.listens and not session.state.lifecycle.ready and session.id in self._live:
            await asyncio.sleep(_HANDSHAKE_SECONDS)
            await self._refresh_listening(session)

    def cancel_elsewhere(self, session: HttpSession, message: Notification) -> None:
        """Announce a cancellation of a request that is not served here."""
        id = message.params.get("requestId")
        if self._replica is not None and isinstance(id, int | str) and not session.connection.serves(id):
            reason = message.params.get("reason")
            self._replica.announce(RequestCancelled(session.id, id, reason if isinstance(reason, str) else None))

    def _new(self, id: str, principal: str | None, client_key: Hashable) -> HttpSession:
        settings = self._settings
        return HttpSession(id, self._core, principal, client_key, self._store, settings.session_idle, self._replica)

    def _add(self, session: HttpSession) -> None:
        self._live[session.id] = session
        if self._replica is None:
            self._limit.add(session.client_key)
            self._core.add_session(session.state)
        if self._sweep is None:
            self._schedule()

    def _remove(self, session: HttpSession, *, ended: bool = True) -> None:
        if self._live.pop(session.id, None) is not None:
            session.unregister()
            if ended:
                self._core.session_ended(session.state)
            if self._replica is None:
                self._limit.release(session.client_key)
                self._core.remove_session(session.state)

    def _forget(self, session: HttpSession) -> None:
        """Close the copy of a session here, and leave what is stored as it is."""
        self._remove(session)
        self._spawn(session.connection.close())

    async def _restore(self, id: str, client_key: Hashable) -> HttpSession | None:
        """A session from the store; without a principal it counts for the client that uses it first."""
        with self._announcements(id) as announced:
            encoded = await self._store.get(_key(id))
        if encoded is None or any(isinstance(message, SessionDeleted) for message in announced):
            return None
        if (live := self._live.get(id)) is not None:  # another request was quicker
            return live
        stored = decode_session(encoded)
        terms = self._terms(stored)
        if terms is None:
            return None
        owner = stored.principal
        session = self._new(id, owner, client_key if owner is None else owner)
        session.restore(encoded, stored, terms)
        _mark(session, announced)
        session.touched = -math.inf  # how long ago another process has renewed it is not known
        self._add(session)
        if self._core.replaces_another and self._replica is None:
            for kind in LIST_KINDS:
                session.state.subscriptions.list_changed(kind)
        return session

    async def _refresh(self, session: HttpSession) -> HttpSession | None:
        """Read a session again that another replica has changed; None if it has ended."""
        with self._announcements(session.id) as announced:
            encoded = await self._store.get(_key(session.id))
        if encoded is None:
            self._forget(session)
            return None
        if self._live.get(session.id) is not session:  # this copy was closed meanwhile
            return await self._restore(session.id, session.client_key)
        session.refresh(encoded, decode_session(encoded))
        _mark(session, announced)
        return session

    @contextlib.contextmanager
    def _announcements(self, id: str) -> Generator[list[SessionChanged | SessionDeleted]]:
        """Announcements of other replicas about a session while its record is read or written.

        The record may have been read before such a change, and its announcement received before the record.
        """
        announced: list[SessionChanged | SessionDeleted] = []
        self._announced.setdefault(id, []).append(announced)
        try:
            yield announced
        finally:
            reads = self._announced[id]
            # By identity: lists that are empty are equal.
            self._announced[id] = [each for each in reads if each is not announced]
            if not self._announced[id]:
                del self._announced[id]

    def _terms(self, stored: StoredSession) -> Terms | None:
        revision = self._core.served.get(stored.revision)
        if revision is None:
            return None
        client = None if stored.client is None else load(Implementation, stored.client)
        return Terms(revision, client, load(ClientCapabilities, stored.capabilities), None, stored.principal)

    # Limits, in the store that the replicas share.

    async def _register_shared(self, session: HttpSession) -> None:
        client_key = session.client_key
        full = await self._try_register(session)
        if full is not None and await self._evict(full):
            full = await self._try_register(session)
        if full is not None:
            raise TooManySessions(self._limit.refusal_of(client_key, each=full != _GROUP))

    async def _try_register(self, session: HttpSession) -> str | None:
        """Store a session and count it; the group that is full, if there is one."""
        id, client_key = session.id, session.client_key
        # At once, which costs one round trip; what was added in vain is taken back.
        joined = await self._join(
            id, client_key, self._store.put(_key(id), session.stored, self._settings.session_idle)
        )
        if all(joined):
            return None
        await asyncio.gather(self._leave(id, client_key), self._store.delete(_key(id)))
        # The client's own limit is the one to name, if both are reached.
        return [group for (group, _), ok in zip(self._groups(client_key), joined, strict=True) if not ok][-1]

    async def _join(self, id: str, client_key: Hashable, *more: Coroutine[Any, Any, object]) -> list[bool]:
        idle, store = self._settings.session_idle, self._store
        joins = [store.join(group, id, idle, most) for group, most in self._groups(client_key)]
        results = await asyncio.gather(*joins, *more)
        return [bool(joined) for joined in results[: len(joins)]]

    async def _leave(self, id: str, client_key: Hashable) -> None:
        await asyncio.gather(*(self._store.leave(group, id) for group, _ in self._groups(client_key)))

    def _groups(self, client_key: Hashable) -> list[tuple[str, int]]:
        """The groups that a session counts in, with their limits."""
        settings = self._settings
        groups = [(_GROUP, settings.max_sessions)]
        if client_key is not None:
            groups.append((f"{_GROUP}:{client_text(client_key)}", settings.max_sessions_each))
        return groups

    async def _evict(self, group: str) -> bool:
        """End the session that expires first, if it cannot have been used lately; True if there is room now."""
        idle = self._settings.session_idle
        oldest = await self._store.oldest(group)
        # One that is used is renewed when a quarter of its time has passed.
        if oldest is None or idle - oldest[1] < idle / _RENEWALS + EVICTABLE_SECONDS:
            return oldest is None
        session = self._live.get(oldest[0]) or await self._restore(oldest[0], None)
        if session is not None and session.idle:
            await self.end(session)
        await self._store.leave(group, oldest[0])
        return True

    # Limits of this process alone.

    async def _make_room(self, client_key: Hashable, *, same: bool) -> None:
        """End the session that was idle longest, of the same client or of any; raise if none is idle."""
        now = asyncio.get_running_loop().time()
        for session in self._live.values():
            if now - session.used < EVICTABLE_SECONDS:
                break
            if session.idle and (not same or session.client_key == client_key):
                await self.end(session)
                return
        raise TooManySessions(self._limit.refusal(client_key))

    # Messages of other replicas.

    def _changed_elsewhere(self, message: SessionChanged) -> None:
        if self._replica is None or message.by == self._replica.id:
            return
        self._tell_reads(message)
        session = self._live.get(message.session)
        if session is None:
            return
        session.outdated(message.known)
        if session.listens:
            # Its client hears of changes here, so that its subscriptions are needed now.
            self._spawn(self._refresh_listening(session))

    def _missed_announcements(self) -> None:
        """Any session may have been changed or deleted elsewhere; `ServerCore` tells clients of all that they watch."""
        for id in self._announced:
            self._tell_reads(SessionChanged(id, ""))
        for session in self._live.values():
            session.outdated(0)
            if session.listens:
                self._spawn(self._refresh_listening(session))

    async def _refresh_listening(self, session: HttpSession) -> None:
        with contextlib.suppress(StoreError):  # it is still stale: its next request reads it
            await self._refresh(session)

    def _tell_reads(self, message: SessionChanged | SessionDeleted) -> None:
        for announced in self._announced.get(message.session, ()):
            announced.append(message)

    def _deleted(self, message: SessionDeleted) -> None:
        self._tell_reads(message)
        session = self._live.get(message.session)
        if session is not None:
            self._remove(session)
            self._spawn(_close_ended(session))

    def _cancelled(self, message: RequestCancelled) -> None:
        session = self._live.get(message.session)
        if session is not None and session.connection.serves(message.id):
            params = {"requestId": message.id, "reason": message.reason}
            self._receive(session, Notification(CANCELLED, params))

    def _notified(self, message: SessionNotification) -> None:
        session = self._live.get(message.session)
        if session is not None and session.listens:
            session.send(message.line)

    def _answered(self, message: SessionMessage) -> None:
        session = self._live.get(message.session)
        if session is not None:
            decoded = codec.decode(message.line)
            for one in decoded if isinstance(decoded, list) else (decoded,):
                self._receive(session, one)

    def _receive(self, session: HttpSession, message: Message) -> None:
        session.connection.receive(message, EventStream(quiet=True), session.terms)

    def _read_elsewhere(self, message: StreamRead) -> None:
        session = self._live.get(message.session)
        if session is not None and (stream := session.streams.get(message.stream)) is not None:
            stream.read_elsewhere(message.position, message.size)

    def _resumed_elsewhere(self, message: StreamResumed) -> None:
        session = self._live.get(message.session)
        stream = None if session is None else session.streams.get(message.stream)
        if session is not None and stream is not None and stream.connected:
            stream.release_readers()
            self._spawn(session.disconnected(stream))

    # Expiry.

    async def _touch(self, session: HttpSession) -> None:
        """Restart the time to live of a session that is used."""
        touch = self._store.touch(_key(session.id), self._settings.session_idle)
        if self._replica is None:
            await touch
        else:
            await self._join(session.id, session.client_key, touch)

    async def _renew(self, session: HttpSession) -> None:
        """Extend what is stored of a session while a stream is open for its client."""
        session.touched = session.used
        await self._touch(session)
        await session.renew_logs()

    def _schedule(self) -> None:
        loop = asyncio.get_running_loop()
        self._sweep = loop.call_later(max(0.05, self._settings.session_idle / 10), self._sweep_now)

    def _sweep_now(self) -> None:
        """End the sessions that have not been used for too long."""
        self._sweep = None
        now, idle = asyncio.get_running_loop().time(), self._settings.session_idle
        for session in list(self._live.values()):
            if session.used > now - idle / _RENEWALS:
                break
            if session.busy:
                session.used = now
                self._live.move_to_end(session.id)
                self._spawn(self._renew(session))
            elif session.used <= now - idle:
                # Its calls too, if there are any: a client that wants their outcome would have come back.
                if self._replica is None:
                    self._spawn(self.end(session))
                elif self._core.needs_session(session.state):
                    session.used = now
                    self._live.move_to_end(session.id)
                    self._spawn(self._refresh_listening(session))
                else:
                    self._forget(session)
        if self._live:
            self._schedule()

    def _spawn(self, work: Coroutine[Any, Any, object]) -> None:
        task = asyncio.get_running_loop().create_task(_finish(work))
        self._chores.add(task)
        task.add_done_callback(self._chores.discard)


async def _close_ended(session: HttpSession) -> None:
    """Cancel the calls of a session that has ended, and remove the logs of its streams."""
    await session.connection.close()
    await session.drop_logs()


def _mark(session: HttpSession, announced: list[SessionChanged | SessionDeleted]) -> None:
    """Have a session read again at its next use, if other replicas have announced changes of it."""
    for message in announced:
        if isinstance(message, SessionChanged):
            session.outdated(message.known)


async def _finish(work: Coroutine[Any, Any, object]) -> None:
    await work


def _is_incomplete(session: HttpSession, request: HttpRequest) -> bool:
    """True if the handshake is not complete here, and this request does not complete it."""
    if session.state.lifecycle.ready:
        return False
    message = request.message
    return not (isinstance(message, Notification) and message.method == "notifications/initialized")


def _key(session: str) -> str:
    return f"session:{session}"


def _initialized(session: Session, params: dict[str, Any]) -> None:
    session.lifecycle.initialized()


def _set_level(session: Session, params: dict[str, Any]) -> None:
    session.log_level = params["level"]


def _subscribe(session: Session, params: dict[str, Any]) -> None:
    session.subscriptions.add(params["uri"])


def _unsubscribe(session: Session, params: dict[str, Any]) -> None:
    session.subscriptions.remove(params["uri"])


CHANGES: dict[str, Callable[[Session, dict[str, Any]], None]] = {
    "notifications/initialized": _initialized,
    "logging/setLevel": _set_level,
    "resources/subscribe": _subscribe,
    "resources/unsubscribe": _unsubscribe,
}
"""The messages that change a stored session, and the change, for a session that was read again."""
