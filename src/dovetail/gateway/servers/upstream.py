"""A server behind the gateway: its connections, opened when they are needed and closed when they are idle."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from dovetail.gateway.errors import ServerUnavailable, http_status_of, shown_reason
from dovetail.gateway.settings import ServerSettings
from dovetail.protocol.bridge import can_be_asked
from dovetail.protocol.errors import (
    INVALID_REQUEST,
    ConnectionLost,
    DovetailError,
    OutcomeUnknown,
    ProtocolError,
    Refused,
    SessionEnded,
    Timeout,
)
from dovetail.protocol.subscriptions import LIST_KINDS, ListKind
from dovetail.types.bounded_dict import BoundedDict

from .circuit_breaker import CircuitBreaker, State
from .clients import owner_of, session_owner
from .connection import Offers, UpstreamConnection
from .leases import ConnectionKey, GiveUp, Leases
from .lost_subscriptions import LostConnection, LostSubscriptions
from .shared_task import wait_for_shared

if TYPE_CHECKING:
    from dovetail.client.targets.contract import ServerTarget
    from dovetail.protocol.revisions.revision import Revision
    from dovetail.server.invocation import Invocation
    from dovetail.server.session import ServerCall, Session
    from dovetail.types.capabilities import ClientCapabilities
    from dovetail.types.client_features import InputRequired
    from dovetail.types.prompts import Prompt
    from dovetail.types.tools import Tool
    from dovetail.wire.jsonrpc import Id

    from .context import UpstreamContext
    from .resource_subscriptions import Subscribers

logger = logging.getLogger("dovetail")

SWEEP_SECONDS = 15.0
"""Seconds between two looks for idle connections."""

STALE_SECONDS = 300.0
"""Seconds for which a list is used that no open connection keeps up to date."""

SHORT_LIFE_SECONDS = 10.0
"""A connection that is lost sooner counts as a failure of the server."""

MAX_CONNECTIONS = 1000
"""Connections to one server."""

RECOVERY_SECONDS = 300.0
"""Seconds after the last request of a client for which a server that fails is tried again by itself."""

MAX_BEFORE = 1000
"""Lists of lost connections that are kept, so that clients are notified of what has changed meanwhile."""

_PROBE_DELAY = 0.05
_CAUSE_SECONDS = 1.0
_CLOSED = "the gateway is ending, or the server was removed from it"

_OF_ONE_CALLER = frozenset({401, 403, 429})
"""HTTP statuses that say nothing of the server itself."""

MakeTarget: TypeAlias = "Callable[[], Awaitable[ServerTarget]]"


class Upstream:
    """One server: its connections by client and capabilities, what it offers, and whether it works."""

    has_caller = False
    """True if it has the credentials of one caller."""
    per_caller = False
    """True if each caller has credentials, and so connections and lists, of its own."""
    needs_token = False
    """True if it can be reached only with the token that the request of a caller came with."""
    era_elsewhere: str | None = None
    """The era that it speaks with other gateways, while this one has not connected to it."""

    def __init__(
        self,
        key: str,
        make_target: MakeTarget,
        settings: ServerSettings,
        context: UpstreamContext,
    ) -> None:
        self.key = key
        """The name of the server in the configuration; what it calls itself plays no part."""
        self.settings = settings
        self.breaker = CircuitBreaker()
        self.instructions: str | None = None
        self.revision: Revision | None = None
        """The revision that it spoke when it was last connected to."""
        self.failed_at: float | None = None
        """When it began to fail, if it does."""
        self._make_target = make_target
        self._info, self._on_changed, self._generation, self._declared, self._reviews = context
        self._connections: dict[ConnectionKey, UpstreamConnection] = {}
        self._opening: dict[ConnectionKey, asyncio.Task[UpstreamConnection]] = {}
        self._unowned: set[ConnectionKey] = set()
        """Those that are being opened for a session which has ended meanwhile."""
        self._leases = Leases(self._is_waiting)
        self._lost = LostSubscriptions()
        self._before: BoundedDict[ConnectionKey, Offers] = BoundedDict(MAX_BEFORE)
        """The offers of connections that were lost or closed, by their keys."""
        self._was_missing = False
        """True if a client was told that its part of a list is missing."""
        self._recovering: asyncio.Task[None] | None = None
        self._asked: tuple[ConnectionKey, ClientCapabilities, float] | None = None
        """The connection that a client has asked for last, and when."""
        self._offers: dict[bytes, Offers] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._late: asyncio.Task[None] | None = None
        self._hangs = False
        self._sweeper: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def is_stateful(self) -> bool:
        """True if each client has a connection of its own, as far as is known."""
        era = self.era_elsewhere if self.revision is None else self.revision.era
        return not self.settings.shared and era != "envelope"

    @property
    def is_closed(self) -> bool:
        """True if it is closed for good."""
        return self._closed

    @property
    def is_failing(self) -> bool:
        """True while it does not work."""
        return self.failed_at is not None

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return len(self._connections)

    @property
    def known_offers(self) -> list[Offers]:
        """Its offers, as far as it was asked yet."""
        return list(self._offers.values())

    def of(self, call: ServerCall) -> Upstream:
        """The server as the caller of a request reaches it: the same for all, unless they have own credentials."""
        return self

    async def sign_in(self, invocation: Invocation) -> InputRequired | None:
        """Ask the user to log in at the server where each has an account there; None if there is no need to."""
        return None

    async def require_login(self, invocation: Invocation) -> InputRequired:
        """Ask the user to log in again; only servers with accounts of users raise what leads here."""
        raise ServerUnavailable(self.key, "it requires a login, and its settings say nothing of accounts")

    async def connection(self, call: ServerCall) -> UpstreamConnection:
        """The connection for a call; raises `ServerUnavailable` at once while the server fails."""
        declared = self._declared.of(call.terms.capabilities)
        return await self._connected(self._key(call, declared.key), declared.capabilities)

    async def _connected(self, key: ConnectionKey, capabilities: ClientCapabilities) -> UpstreamConnection:
        self._asked = key, capabilities, asyncio.get_running_loop().time()
        return await self.reach(key, capabilities)

    async def reach(self, key: ConnectionKey, capabilities: ClientCapabilities) -> UpstreamConnection:
        """The connection with a key; raises `ServerUnavailable` at once while the server fails."""
        found = self._answering(key)
        return found if found is not None else await self._open(key, capabilities)

    @contextlib.asynccontextmanager
    async def leased(self, call: ServerCall, give_up: GiveUp) -> AsyncGenerator[UpstreamConnection]:
        """The connection for a call whose client may be asked something in rounds, and for no other meanwhile.

        The first call uses the connection of its client, and further ones at the same time get others, which the server
        may take for other clients. `give_up` cancels the call while it waits for its client, in favour of others.
        """
        declared = self._declared.of(call.terms.capabilities)
        rounds = call.terms.revision.server_requests == "rounds"
        if not self.is_stateful or not rounds or not can_be_asked(call.terms.capabilities):
            yield await self.connection(call)
            return
        async with self._leases.lease(owner_of(call), declared.key, give_up, self.settings.timeout) as key:
            if key is None:
                raise ServerUnavailable(self.key, "too many calls of this client are in progress")
            yield await self._connected(key, declared.capabilities)

    def _is_waiting(self, key: ConnectionKey) -> bool:
        connection = self._connections.get(key)
        return connection is not None and connection.relayed.waiting > 0

    async def offers(self, call: ServerCall) -> Offers:
        """The offers of the server to the client of a call; raises `ServerUnavailable`."""
        declared = self._declared.of(call.terms.capabilities)
        key = self._key(call, declared.key)
        self._asked = key, declared.capabilities, asyncio.get_running_loop().time()
        found = self._usable(key)
        if found is not None and self.failed_at is not None:
            # Over HTTP the connection is not lost with the server: what is known of it may be out of date.
            return await self._fetch_again(key, found)
        known = self._offers.get(declared.key)
        if found is None:
            is_fresh = known is not None and asyncio.get_running_loop().time() - known.fetched < STALE_SECONDS
            # Another connection may be another process, which offers something else.
            if known is not None and is_fresh and self.failed_at is None and not self.is_reviewed:
                return known
            found = await self._open(key, declared.capabilities)
        offers = await self._offers_over(found)
        known = self._offers.get(declared.key)
        if known is not None and known.version != offers.version and known.has_same_items(offers):
            # What was worked out for the others, such as names and reviews, holds for these too.
            offers = found.share_offers(known)
        self._offers[declared.key] = offers
        if known is None or (known.version != offers.version and not self.is_reviewed):
            self._generation.next()
        return offers

    @property
    def is_reviewed(self) -> bool:
        """True if its definitions decide what may be done, so that each connection counts with its own."""
        return self._reviews(self.settings)

    async def check_definition(self, connection: UpstreamConnection, definition: Tool | Prompt | None) -> None:
        """Refuse a request over a connection with another definition of its subject than the one that was reviewed."""
        if definition is None or not self.is_reviewed:
            return
        if (await self._offers_over(connection)).current(definition) != definition:
            self._generation.next()
            text = f"{definition.name!r} of the server {self.key!r} has changed: list it again before it is used"
            raise ProtocolError(INVALID_REQUEST, text, {"server": self.key})

    async def _offers_over(self, connection: UpstreamConnection) -> Offers:
        try:
            return await connection.offers()
        except (DovetailError, TimeoutError) as problem:
            self._note_failure(problem)
            raise ServerUnavailable(self.key, str(problem) or "its lists did not arrive in time") from problem

    async def _fetch_again(self, key: ConnectionKey, connection: UpstreamConnection) -> Offers:
        """The offers of a server that fails, or may work again; raises `ServerUnavailable`."""
        if (refusal := self.breaker.refusal(asyncio.get_running_loop().time())) is not None:
            raise ServerUnavailable(self.key, refusal.reason, refusal.retry_in)
        before = connection.known_offers
        connection.forget_offers()
        try:
            offers = await self._offers_over(connection)
        except asyncio.CancelledError:
            self.breaker.abandoned()
            raise
        self.answered()
        self._note_offers(key, before, offers)
        return offers

    def _note_offers(self, key: ConnectionKey, before: Offers | None, offers: Offers) -> None:
        """Keep the offers of a connection that was made again; clients are notified of what has changed."""
        self._offers[key[1]] = offers
        self._generation.next()
        for kind in () if before is None else LIST_KINDS:
            if before is not None and offers.of_kind(kind) != before.of_kind(kind):
                self._on_changed(self, kind)

    def known(self, call: ServerCall) -> Offers | None:
        """The offers of the server to the client of a call, as far as they are known without asking."""
        declared = self._declared.of(call.terms.capabilities)
        found = self._usable(self._key(call, declared.key))
        return (None if found is None else found.known_offers) or self._offers.get(declared.key)

    def has_own_offers(self, call: ServerCall) -> bool:
        """True if what is known of its offers counts for the client of a call, and not only for others."""
        if not self.is_reviewed:
            return True
        found = self._usable(self._key(call, self._declared.of(call.terms.capabilities).key))
        return found is not None and found.known_offers is not None

    @property
    def is_late(self) -> bool:
        """True if lists have waited for this server in vain, and it has neither answered nor failed since."""
        return self._late is not None and not self._late.done()

    def await_lists(self, call: ServerCall) -> None:
        """Wait for a server that is late while nobody else does, and tell clients when it has answered."""
        if not self.is_late and not self._closed:
            self._late = self._spawn(self._announce_late(call))

    async def _announce_late(self, call: ServerCall) -> None:
        with contextlib.suppress(ServerUnavailable):
            await self.offers(call)
            self._generation.next()
            self._announce()

    def _announce(self) -> None:
        for kind in LIST_KINDS:
            self._on_changed(self, kind)

    def kept_offers(self, call: ServerCall) -> Offers | None:
        """The offers of the server before it failed, for as long as its tools stay in the lists."""
        known = self._offers.get(self._declared.of(call.terms.capabilities).key)
        if known is not None and self.failed_at is not None:
            since = asyncio.get_running_loop().time() - self.failed_at
            known = known if since < self.settings.grace_seconds else None
        self._was_missing = self._was_missing or known is None
        return known

    def timed_out(self, problem: Timeout) -> None:
        """A request got no answer in time."""
        self._not_answered(str(problem))

    def lost(self, problem: ConnectionLost, connection: UpstreamConnection | None) -> None:
        """A request was not answered; over HTTP, where each has a connection of its own, this tells of the server."""
        if connection is None or not connection.is_usable or isinstance(problem, SessionEnded):
            return  # `_watch` takes note of a connection that is lost
        status = http_status_of(problem)
        if status in _OF_ONE_CALLER:
            return
        if status is None and isinstance(problem, OutcomeUnknown):
            # It broke off in the middle, maybe because of this very call.
            self._not_answered(str(problem))
        else:
            self._note_failure(problem)
            self._hangs = True

    def _not_answered(self, reason: str) -> None:
        reason = shown_reason(reason)
        logger.warning("The server %r did not answer a request: %s", self.key, reason)
        self.breaker.timed_out(reason, asyncio.get_running_loop().time())
        if self.breaker.state is State.OPEN:
            self._hangs = True
            self._begin_failure(reason)

    def answered(self) -> None:
        """The server has answered a request."""
        self._hangs = False
        if self.breaker.state is not State.CLOSED or self.failed_at is not None:
            if self.failed_at is not None:
                logger.info("The server %r works again", self.key)
            self.failed_at = None
            self._generation.next()
            if self._was_missing:
                self._was_missing = False
                self._announce()
        self.breaker.succeeded()

    def connections_of(self, session: Session) -> list[UpstreamConnection]:
        """The open connections of one session."""
        owner = session_owner(session)
        return [one for (whose, _, _), one in self._connections.items() if whose == owner]

    def has_subscriptions(self, session: Session) -> bool:
        """True if a session is subscribed to any resource."""
        return self._lost.has(session) or any(one.has_subscriber(session) for one in self._connections.values())

    def unsubscribe(self, session: Session, known_as: str | None = None, request: Id | None = None) -> None:
        """End one subscription of a session, or all."""
        self._lost.remove(session, known_as, request)
        for connection in self._connections.values():
            connection.unsubscribe(session, known_as, request)

    def tell_subscribers(self) -> None:
        """Notify all subscribers that what they are subscribed to may have changed."""
        for connection in self._connections.values():
            for uri in connection.subscribers():
                connection.report_update(uri)

    def subscriptions(self) -> dict[ConnectionKey, LostConnection]:
        """The subscriptions of all clients, for another object that stands for the same server."""
        return self._lost.take_all(self._connections)

    def take_over(self, lost: Mapping[ConnectionKey, LostConnection]) -> None:
        """Make the subscriptions again that clients had at this server before its settings were changed."""
        for key, (capabilities, subscribers) in lost.items():
            self._subscribe_again(key, capabilities, subscribers)

    def release(self, session: Session) -> None:
        """A session has ended: close its connections, except those over which its tasks are in progress."""
        self.unsubscribe(session)
        owner = session_owner(session)
        for key, connection in [item for item in self._connections.items() if item[0][0] == owner]:
            if connection.relayed.serves_tasks:
                connection.outlives_session = True  # `_sweep` closes it after them
            else:
                del self._connections[key]
                self._spawn(connection.close())
        for key in [key for key in self._before if key[0] == owner]:
            del self._before[key]
        self._unowned.update(key for key in self._opening if key[0] == owner)

    async def close(self) -> None:
        """Close everything, for good."""
        self._closed = True
        await self.close_connections()

    async def close_connections(self) -> None:
        """Close all connections; the next request opens one again."""
        opening = list(self._opening.values())
        sweeper, self._sweeper = self._sweeper, None
        for task in (*opening, *self._tasks, *(() if sweeper is None else (sweeper,))):
            task.cancel()
        await asyncio.gather(*opening, *self._tasks, return_exceptions=True)
        connections, self._connections = list(self._connections.values()), {}
        await asyncio.gather(*(one.close() for one in connections), return_exceptions=True)

    def _key(self, call: ServerCall, declared: bytes) -> ConnectionKey:
        return (owner_of(call) if self.is_stateful else None), declared, 0

    def _usable(self, key: ConnectionKey) -> UpstreamConnection | None:
        found = self._connections.get(key)
        return found if found is not None and found.is_usable else None

    def _answering(self, key: ConnectionKey) -> UpstreamConnection | None:
        """The usable connection; raises `ServerUnavailable` while the server answers nothing that is sent over it."""
        found = self._usable(key)
        if found is not None and self._hangs:
            refusal = self.breaker.refusal(asyncio.get_running_loop().time())
            if refusal is not None:
                raise ServerUnavailable(self.key, refusal.reason, refusal.retry_in)
        return found

    async def _open(self, key: ConnectionKey, capabilities: ClientCapabilities) -> UpstreamConnection:
        opening = self._opening.get(key)
        if opening is None:
            loop = asyncio.get_running_loop()
            if self._closed:
                raise ServerUnavailable(self.key, _CLOSED)
            if (refusal := self.breaker.refusal(loop.time())) is not None:
                raise ServerUnavailable(self.key, refusal.reason, refusal.retry_in)
            if len(self._connections) >= MAX_CONNECTIONS:
                raise ServerUnavailable(self.key, f"the gateway has {MAX_CONNECTIONS} connections to it already")
            opening = loop.create_task(self._connect(key, capabilities), name="dovetail-gateway-connect")
            self._opening[key] = opening
            opening.add_done_callback(lambda task: self._opened(key, task))
        try:
            return await wait_for_shared(opening, ServerUnavailable(self.key, _CLOSED))
        except (DovetailError, OSError, TimeoutError) as problem:
            if isinstance(problem, ServerUnavailable):
                raise
            raise ServerUnavailable(self.key, str(problem) or "it did not answer in time") from problem

    def _opened(self, key: ConnectionKey, task: asyncio.Task[UpstreamConnection]) -> None:
        del self._opening[key]
        if not task.cancelled() and task.exception() is None:  # those who waited for it have raised it
            task.result().outlives_session |= key in self._unowned and not task.result().shared
        self._unowned.discard(key)

    async def _connect(self, key: ConnectionKey, capabilities: ClientCapabilities) -> UpstreamConnection:
        shared = key[0] is None
        try:
            target = await self._make_target()
        except (DovetailError, OSError) as problem:
            self._note_failure(problem)
            raise
        connection = UpstreamConnection(target, self._info, capabilities, self.settings, self._changed, shared=shared)
        connection.tell_replicas = not self.has_caller
        try:
            await connection.open()
        except asyncio.CancelledError:
            self.breaker.abandoned()
            raise
        except (DovetailError, OSError, TimeoutError) as problem:
            self._note_failure(problem)
            raise
        self.answered()
        self.instructions, self.revision = connection.instructions, connection.revision
        if self.revision.era == "envelope":
            # It keeps no state for a connection, so that all clients can have one.
            key = (None, key[1], 0)
            connection.shared = True
            if (other := self._usable(key)) is not None:
                await connection.close()
                return other
        self._connections[key] = connection
        self._spawn(self._watch(key, connection))
        if (before := self._before.pop(key, None)) is not None:
            self._spawn(self._compare(key, connection, before))
        if self._sweeper is None:
            self._sweeper = asyncio.create_task(self._sweep(), name="dovetail-gateway-sweep")
        return connection

    def _note_failure(self, problem: BaseException) -> None:
        reason = shown_reason(problem) or "it did not answer in time"
        was_asked = not isinstance(problem, Refused)  # by us, until the user approves its launch
        self.breaker.failed(reason, asyncio.get_running_loop().time(), was_asked=was_asked)
        self._begin_failure(reason)

    def _begin_failure(self, reason: str) -> None:
        """Requests are refused from now on until the server works again, which is tried from time to time."""
        loop = asyncio.get_running_loop()
        self._generation.next()
        if self.failed_at is None:
            self.failed_at = loop.time()
            logger.warning("The server %r does not work: %s", self.key, reason)
            if self._offers:
                self._spawn(self._end_grace(self.failed_at))
        if (self._recovering is None or self._recovering.done()) and not self._closed:
            self._recovering = self._spawn(self._recover())

    async def _end_grace(self, failed_at: float) -> None:
        """Notify clients when the tools of a server that fails vanish from the lists."""
        await asyncio.sleep(self.settings.grace_seconds)
        if self.failed_at == failed_at:
            self._was_missing = True
            self._generation.next()
            self._announce()

    async def _recover(self) -> None:
        """Find out when a server works again, as long as clients have asked for it lately."""
        loop = asyncio.get_running_loop()
        while self.is_failing and self._asked is not None:
            await asyncio.sleep(self.breaker.pause(loop.time()) + _PROBE_DELAY)
            key, capabilities, asked = self._asked
            if not self.is_failing or loop.time() - asked > RECOVERY_SECONDS:
                return
            with contextlib.suppress(ServerUnavailable):
                found = self._usable(key)
                if found is None:
                    await self._open(key, capabilities)
                else:
                    await self._fetch_again(key, found)

    async def _compare(self, key: ConnectionKey, connection: UpstreamConnection, before: Offers) -> None:
        """Find out if a server that was connected to again offers something else than before."""
        with contextlib.suppress(DovetailError, TimeoutError):
            self._note_offers(key, before, await connection.offers())

    async def _watch(self, key: ConnectionKey, connection: UpstreamConnection) -> None:
        """Notice that a connection is lost."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        reason = await connection.wait_lost()
        if self._connections.get(key) is not connection:
            return  # closed by us
        self._forget_connection(key, connection)
        self._forget_freshness(key[1])
        if loop.time() - began < SHORT_LIFE_SECONDS:
            if connection.busy or loop.time() - connection.last_used < _CAUSE_SECONDS:
                # A call may have ended it, which says nothing about others.
                self._not_answered(reason)
            else:
                self._note_failure(ConnectionLost(reason))
        else:
            logger.warning("The connection to the server %r was lost: %s", self.key, shown_reason(reason))
        self._subscribe_again(key, connection.declared_by_client, connection.subscribers())
        with contextlib.suppress(DovetailError):
            await connection.close()

    def _forget_connection(self, key: ConnectionKey, connection: UpstreamConnection) -> None:
        del self._connections[key]
        if connection.known_offers is not None:
            self._before[key] = connection.known_offers

    def _forget_freshness(self, declared: bytes) -> None:
        """The next list asks the server again: it may not work any more, or offer something else."""
        if (known := self._offers.get(declared)) is not None:
            self._offers[declared] = msgspec.structs.replace(known, fetched=-math.inf)
            self._generation.next()

    def _subscribe_again(self, key: ConnectionKey, capabilities: ClientCapabilities, subscribers: Subscribers) -> None:
        if subscribers and not self._closed:
            self._lost.add(key, capabilities, subscribers)
            self._spawn(self._lost.restore(key, self))

    async def _sweep(self) -> None:
        """Close connections that nobody has used for a while."""
        while True:
            await asyncio.sleep(min(SWEEP_SECONDS, max(self.settings.idle_seconds / 2, 0.05)))
            now = asyncio.get_running_loop().time()
            for key, connection in list(self._connections.items()):
                if connection.is_unused(now):
                    self._forget_connection(key, connection)
                    with contextlib.suppress(DovetailError):
                        await connection.close()

    def _changed(self, kind: ListKind) -> None:
        self._offers.clear()
        # A server may tell one connection only, and a client may have several.
        for connection in self._connections.values():
            connection.forget_offers()
        self._generation.next()
        self._on_changed(self, kind)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
