"""A server behind the gateway: its connections, opened when they are needed and closed when they are idle."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Hashable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from dovetail.gateway.errors import ServerUnavailable
from dovetail.gateway.settings import ServerSettings
from dovetail.protocol.bridge import can_be_asked, capabilities_key, relayed_capabilities
from dovetail.protocol.errors import ConnectionLost, DovetailError, Timeout
from dovetail.protocol.subscriptions import LIST_KINDS, ListKind
from dovetail.types.bounded_dict import BoundedDict

from .circuit_breaker import CircuitBreaker, State
from .connection import Offers, UpstreamConnection

if TYPE_CHECKING:
    from dovetail.client.targets.contract import ServerTarget
    from dovetail.protocol.revisions.revision import Revision
    from dovetail.server.invocation import Invocation
    from dovetail.server.session import ServerCall, Session
    from dovetail.types.capabilities import ClientCapabilities, Implementation
    from dovetail.types.client_features import InputRequired

logger = logging.getLogger("dovetail")

SWEEP_SECONDS = 15.0
"""Seconds between two looks for idle connections."""

STALE_SECONDS = 300.0
"""Seconds for which a list is used that no open connection keeps up to date."""

SHORT_LIFE_SECONDS = 10.0
"""A connection that is lost sooner counts as a failure of the server."""

MAX_CONNECTIONS = 1000
"""Connections to one server."""

MAX_LEASES = 8
"""Connections of one client to one server of the handshake era, for calls in progress that may ask something; further
calls wait for one of them."""

_CLOSED = "the gateway is ending, or the server was removed from it"

ConnectionKey: TypeAlias = tuple[Hashable, bytes, int]
"""The client that a connection belongs to, None for all of them, the capabilities that it declares, and a number.

The number is 0 but for calls that need a connection of their own while another is in progress.
"""

MakeTarget: TypeAlias = "Callable[[], Awaitable[ServerTarget]]"
OnChanged: TypeAlias = "Callable[[Upstream, ListKind], None]"


class Generation:
    """A number that grows with every change at any server: what was worked out before it may be out of date."""

    __slots__ = ("number",)

    def __init__(self) -> None:
        self.number = 0

    def next(self) -> None:
        """Something has changed."""
        self.number += 1


class Declared(NamedTuple):
    """The capabilities that are declared to servers in the name of a client, and their key."""

    capabilities: ClientCapabilities
    key: bytes


class DeclaredCapabilities:
    """The capabilities to declare for each client, worked out once for clients that send the same object again."""

    def __init__(self) -> None:
        self._known: BoundedDict[int, tuple[ClientCapabilities, Declared]] = BoundedDict(MAX_CONNECTIONS)

    def of(self, client: ClientCapabilities) -> Declared:
        """The capabilities to declare for a client."""
        known = self._known.get(id(client))
        if known is not None and known[0] is client:
            return known[1]
        capabilities = relayed_capabilities(client)
        declared = Declared(capabilities, capabilities_key(capabilities))
        self._known[id(client)] = (client, declared)
        return declared


class UpstreamContext(NamedTuple):
    """What the servers of one gateway share."""

    info: Implementation
    """The name and version that the gateway has as a client."""
    on_changed: OnChanged
    generation: Generation
    declared: DeclaredCapabilities


def owner_of(call: ServerCall) -> Hashable:
    """The client of a call, which has connections of its own to servers that keep state for each connection.

    In the handshake era that is a session, in the envelope era, which has none, a principal or an address.
    """
    if call.terms.revision.era == "handshake" and call.session.keeps_state:
        return session_owner(call.session)
    return ("client", call.client_key)


def session_owner(session: Session) -> Hashable:
    """The owner of connections for a session."""
    return ("session", session.id if session.id is not None else id(session))


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
        self._info, self._on_changed, self._generation, self._declared = context
        self._connections: dict[ConnectionKey, UpstreamConnection] = {}
        self._opening: dict[ConnectionKey, asyncio.Task[UpstreamConnection]] = {}
        self._leased: set[ConnectionKey] = set()
        self._lease_freed = asyncio.Event()
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
        key = self._key(call, declared.key)
        found = self._answering(key)
        return found if found is not None else await self._open(key, declared.capabilities)

    @contextlib.asynccontextmanager
    async def leased(self, call: ServerCall) -> AsyncGenerator[UpstreamConnection]:
        """The connection for a call whose client may be asked something in rounds.

        A server of the handshake era does not say which of several calls a question belongs to, and a question in
        rounds is answered by repeating its call. So no two such calls share a connection: the first uses the one of
        its client, and further ones at the same time get others, which the server may take for other clients.
        """
        declared = self._declared.of(call.terms.capabilities)
        rounds = call.terms.revision.server_requests == "rounds"
        if not self.is_stateful or not rounds or not can_be_asked(call.terms.capabilities):
            yield await self.connection(call)
            return
        key = await self._lease(call, declared.key)
        try:
            found = self._answering(key)
            yield found if found is not None else await self._open(key, declared.capabilities)
        finally:
            self._leased.discard(key)
            self._lease_freed.set()

    async def _lease(self, call: ServerCall, declared: bytes) -> ConnectionKey:
        """The first connection of a client that no other call has, after waiting for one if need be."""
        try:
            async with asyncio.timeout(self.settings.timeout):
                while True:
                    for number in range(MAX_LEASES):
                        key = self._key(call, declared, number)
                        if key not in self._leased:
                            self._leased.add(key)
                            return key
                    self._lease_freed.clear()
                    await self._lease_freed.wait()
        except TimeoutError:
            busy = f"{MAX_LEASES} calls of this client are in progress, or wait for answers"
            raise ServerUnavailable(self.key, busy) from None

    async def offers(self, call: ServerCall) -> Offers:
        """The offers of the server to the client of a call; raises `ServerUnavailable`."""
        declared = self._declared.of(call.terms.capabilities)
        key = self._key(call, declared.key)
        found = self._usable(key)
        if found is None:
            known = self._offers.get(declared.key) if self.failed_at is None else None
            if known is not None and asyncio.get_running_loop().time() - known.fetched < STALE_SECONDS:
                return known
            found = await self._open(key, declared.capabilities)
        try:
            offers = await found.offers()
        except (DovetailError, TimeoutError) as problem:
            self._note_failure(problem)
            raise ServerUnavailable(self.key, str(problem) or "its lists did not arrive in time") from problem
        if self._offers.get(declared.key) is not offers:
            self._offers[declared.key] = offers
            self._generation.next()
        return offers

    def known(self, call: ServerCall) -> Offers | None:
        """The offers of the server to the client of a call, as far as they are known without asking."""
        declared = self._declared.of(call.terms.capabilities)
        found = self._usable(self._key(call, declared.key))
        return (None if found is None else found.known_offers) or self._offers.get(declared.key)

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
            self._announce()

    def _announce(self) -> None:
        for kind in LIST_KINDS:
            self._on_changed(self, kind)

    def kept_offers(self, call: ServerCall) -> Offers | None:
        """The offers of the server before it failed, for as long as its tools stay in the lists."""
        known = self._offers.get(self._declared.of(call.terms.capabilities).key)
        if known is None or self.failed_at is None:
            return known
        since = asyncio.get_running_loop().time() - self.failed_at
        return known if since < self.settings.grace_seconds else None

    def timed_out(self, problem: Timeout) -> None:
        """A request got no answer in time."""
        self.breaker.timed_out(str(problem), asyncio.get_running_loop().time())
        self._hangs = self.breaker.state is State.OPEN

    def answered(self) -> None:
        """The server has answered a request."""
        self._hangs = False
        if self.breaker.state is not State.CLOSED or self.failed_at is not None:
            failed_at, self.failed_at = self.failed_at, None
            self._generation.next()
            now = asyncio.get_running_loop().time()
            if failed_at is not None and now - failed_at >= self.settings.grace_seconds:
                self._announce()  # its tools have vanished from the lists
        self.breaker.succeeded()

    def connections_of(self, session: Session) -> list[UpstreamConnection]:
        """The open connections of one session."""
        owner = session_owner(session)
        return [one for (whose, _, _), one in self._connections.items() if whose == owner]

    def has_subscriptions(self, session: Session) -> bool:
        """True if a session is subscribed to any resource."""
        return any(connection.has_subscriptions(session) for connection in self._connections.values())

    def unsubscribe(self, session: Session, uri: str | None = None) -> None:
        """End the subscriptions of a session, or that to one resource."""
        for connection in self._connections.values():
            connection.unsubscribe(session, uri)

    def release(self, session: Session) -> None:
        """A session has ended: close its connections."""
        self.unsubscribe(session)
        owner = session_owner(session)
        for key in [key for key in self._connections if key[0] == owner]:
            self._spawn(self._connections.pop(key).close())

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

    def _key(self, call: ServerCall, declared: bytes, number: int = 0) -> ConnectionKey:
        return (owner_of(call) if self.is_stateful else None), declared, number

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
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not opening.cancelled() or (task is not None and task.cancelling()):
                raise
            raise ServerUnavailable(self.key, _CLOSED) from None
        except (DovetailError, OSError, TimeoutError) as problem:
            if isinstance(problem, ServerUnavailable):
                raise
            raise ServerUnavailable(self.key, str(problem) or "it did not answer in time") from problem

    def _opened(self, key: ConnectionKey, task: asyncio.Task[UpstreamConnection]) -> None:
        del self._opening[key]
        if not task.cancelled():
            task.exception()  # those who waited for it have raised it

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
        if self._sweeper is None:
            self._sweeper = asyncio.create_task(self._sweep(), name="dovetail-gateway-sweep")
        return connection

    def _note_failure(self, problem: BaseException) -> None:
        now = asyncio.get_running_loop().time()
        if self.failed_at is None:
            self.failed_at = now
            logger.warning("The server %r does not work: %s", self.key, problem or "it did not answer in time")
        self.breaker.failed(str(problem) or "it did not answer in time", now)
        self._generation.next()

    async def _watch(self, key: ConnectionKey, connection: UpstreamConnection) -> None:
        """Notice that a connection is lost."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        reason = await connection.wait_lost()
        if self._connections.get(key) is not connection:
            return  # closed by us
        del self._connections[key]
        if loop.time() - began < SHORT_LIFE_SECONDS:
            self._note_failure(ConnectionLost(reason))
        with contextlib.suppress(DovetailError):
            await connection.close()

    async def _sweep(self) -> None:
        """Close connections that nobody has used for a while."""
        while True:
            await asyncio.sleep(min(SWEEP_SECONDS, max(self.settings.idle_seconds / 2, 0.05)))
            now = asyncio.get_running_loop().time()
            for key, connection in list(self._connections.items()):
                if connection.is_idle and now - connection.last_used > self.settings.idle_seconds:
                    del self._connections[key]
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
