"""Home replica: the gateway that holds the connections of a client to servers that keep state for each connection.

Gateways that share a store serve any request of any client. A server of the handshake era, however, keeps state for
each connection, such as an open document, and a client has one connection to it. It is at the home replica of the
client, the first gateway that needed it. Another gateway that gets a request which concerns such a server passes it on
to the home replica (`server/replicas/remote_calls`), and what comes back goes to the client over the connection on
which its request came. If the home replica ends, the next gateway that gets a request becomes the home; the state of
the servers is lost then, as with any connection.

A client is known by its session, or by its principal. Requests without either, on 2026-07-28 without authentication,
do not say which of them are of one client: they are served where they arrive.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from dovetail.middleware.telemetry import trace_context
from dovetail.protocol.envelope import EnvelopeReader, meta_of
from dovetail.protocol.errors import INTERNAL_ERROR, INVALID_REQUEST, ProtocolError
from dovetail.runtime.serve import Outcome, Work
from dovetail.server.replicas.messages import SessionMessage
from dovetail.server.replicas.remote_calls import MAX_OFFER, Offer, RemoteCalls, serving_for_another
from dovetail.server.replicas.replica import HEARTBEAT_SECONDS
from dovetail.server.replicas.request_ids import encode_message
from dovetail.server.request_headers import CREDENTIALS
from dovetail.server.session import ServerCall, Session
from dovetail.storage.contract import StoreError
from dovetail.transports.base import MessageSink
from dovetail.types.bounded_dict import BoundedDict
from dovetail.wire.jsonrpc import Id, Notification, Request

from .access_control.inbound import Caller, caller_of, use_caller

if TYPE_CHECKING:
    from .core import GatewayCore
    from .servers.upstream import Upstream

logger = logging.getLogger("dovetail")

HOME_SECONDS = 3600.0
"""Seconds for which the home of a client is remembered after its last use."""

ERA_SECONDS = 86_400.0
ERA_CHECK_SECONDS = 60.0
"""Seconds for which other gateways are told the era of a server, and between two looks at what they have told."""

ANSWER_SECONDS = 10.0
"""Seconds that a home replica which is alive may take to begin with a request that is passed on to it."""

SUBSCRIBED_SECONDS = 86_400.0
"""Seconds for which the store says which replica has the subscriptions of a session, after one or a stream is new."""

MAX_HOMES = 100_000
"""Clients whose home is this gateway, as far as it knows without asking the store."""

MAX_CLIENTS = 1000
"""Clients without a session that limits are counted for."""

KIND = "gateway"
SUBSCRIBE = "resources/subscribe"

_CLAIM_SECONDS = 600.0
_RENEWALS = 4
_ATTEMPTS = 5
_NOWHERE = ""
"""The id of no replica."""

Method = Callable[["GatewayCore", ServerCall, Any], Outcome]
"""Answers a request at the home replica of its client."""


class PassedRequest(msgspec.Struct, array_like=True, frozen=True):
    """A request on its way to the home replica of its client, without the token that it came with."""

    id: Id
    method: str
    params: bytes
    """JSON."""
    session: str | None
    principal: str | None
    scopes: frozenset[str] | None
    groups: frozenset[str] | None
    """None if they are not known: rules that need them refuse the request."""
    client_id: str | None
    token_scopes: tuple[str, ...]


class _Mine(NamedTuple):
    """A client whose home is here."""

    until: float
    """The time until which this is known without asking the store."""
    lapses: int
    """How often others may have taken this replica for dead when the store was asked."""


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(PassedRequest).decode


class HomeReplicas:
    """Serves the requests of clients at their home replicas, for one view of a gateway."""

    def __init__(self, core: GatewayCore, remote_calls: RemoteCalls, methods: Mapping[str, Method]) -> None:
        """`methods` answers requests here, whichever replica they have reached."""
        self._core = core
        self._methods = methods
        self._remote_calls = remote_calls
        self._replica = remote_calls.replica
        self._store = self._replica.store
        self._envelope = EnvelopeReader(core.served)
        self._mine: BoundedDict[str, _Mine] = BoundedDict(MAX_HOMES)
        self._clients: BoundedDict[str, Session] = BoundedDict(MAX_CLIENTS)
        self._eras: dict[str, tuple[str | None, float]] = {}
        """By server: the era that was told to others, or by others, and when it was."""
        self._subscribed_at: dict[Session, str] = {}
        """The replica at which a session that is notified here has its subscriptions."""
        remote_calls.serve(KIND, self._prepare)
        self._replica.run(self._watch_homes())

    async def serve(self, call: ServerCall, servers: Iterable[Upstream], work: Work) -> bytes:
        """The result of a request that concerns some servers: of `work`, or of the home replica of its client."""
        owner = owner_of_home(call)
        servers = list(servers)
        if owner is None or not await self._needs_home(servers):
            return await work()
        key = self._key(owner)
        for _ in range(_ATTEMPTS):
            home = await self._home(key)
            if home == self._replica.id:
                await self._note_subscribing(call)
                result = await work()
                self._tell_eras(servers)
                return result
            passed = await self._pass_on(home, call)
            if passed is not None:
                return passed
            # It has ended or is about to, and has not begun with this request.
            if await self._store.replace(key, self._replica.id.encode(), HOME_SECONDS, expected=home.encode()):
                self._note_mine(key)
        text = "The connections of this client move from one gateway to another; send the request again"
        raise ProtocolError(INTERNAL_ERROR, text)

    async def claim(self, call: ServerCall) -> None:
        """Make this replica the home of a client that is about to get connections here, unless it has a home."""
        owner = owner_of_home(call)
        if owner is not None:
            with contextlib.suppress(StoreError):
                await self._home(self._key(owner))

    def ended(self, session: Session) -> None:
        """A session has ended: its connections are closed, and nobody needs to know where they were."""
        self._subscribed_at.pop(session, None)
        key = self._key(f"session {session.id}")
        if self._mine.pop(key, None) is not None:
            self._replica.run(self._forget(key))
            self._replica.run(self._forget(self._subscriptions_key(session)))

    def pass_notification(self, session: Session, notification: Notification) -> None:
        """Send a notification of a client to its home replica too, if that is another one."""
        if session.id is not None:
            self._replica.run(self._send_to_home(session.id, notification))

    def note_lost(self, session: Session) -> None:
        """The subscriptions of a session that is notified here were not made: the next look at the homes repeats it."""
        self._subscribed_at[session] = _NOWHERE

    async def _send_to_home(self, session: str, notification: Notification) -> None:
        with contextlib.suppress(StoreError):
            home = await self._store.get(self._key(f"session {session}"))
            if home is not None and home.decode() != self._replica.id:
                await self._replica.send(home.decode(), SessionMessage(session, encode_message(notification)))

    async def _forget(self, key: str) -> None:
        with contextlib.suppress(StoreError):
            await self._store.delete(key)

    async def _needs_home(self, servers: list[Upstream]) -> bool:
        """True if any of these servers keeps state for each connection, and none of them needs the caller's token."""
        for server in servers:
            if server.revision is None and server.is_stateful:
                server.era_elsewhere = await self._era(server.key)
        # A token is never passed on, and without it a request learns nothing of a server that needs it. So requests
        # that may concern such a server stay here, also those that concern others too, such as lists.
        return any(server.is_stateful for server in servers) and not any(server.needs_token for server in servers)

    async def _era(self, server: str) -> str | None:
        """The era of a server that another gateway has connected to."""
        now, known = asyncio.get_running_loop().time(), self._eras.get(server)
        if known is None or now - known[1] > ERA_CHECK_SECONDS:
            with contextlib.suppress(StoreError):
                told = await self._store.get(_era_key(server))
                known = self._eras[server] = (None if told is None else told.decode(), now)
        return None if known is None else known[0]

    def _tell_eras(self, servers: list[Upstream]) -> None:
        now = asyncio.get_running_loop().time()
        for server in servers:
            if server.revision is None:
                continue
            era, known = server.revision.era, self._eras.get(server.key)
            if known is None or known[0] != era or now - known[1] > ERA_SECONDS / 2:
                self._eras[server.key] = (era, now)
                self._replica.run(self._tell_era(server.key, era))

    async def _tell_era(self, server: str, era: str) -> None:
        with contextlib.suppress(StoreError):
            await self._store.put(_era_key(server), era.encode(), ERA_SECONDS)

    async def _home(self, key: str) -> str:
        """The id of the home replica of a client: this one, if it has none yet."""
        replica, mine = self._replica, self._mine.get(key)
        now = asyncio.get_running_loop().time()
        if mine is not None and now < mine.until and mine.lapses == replica.lapses:
            return replica.id
        while True:
            found = await self._store.get(key)
            if found is None:
                await replica.ensure_alive()
                added = await self._store.add(key, replica.id.encode(), HOME_SECONDS)
            else:
                added = found.decode() == replica.id and await self._store.touch(key, HOME_SECONDS)
            if added:
                self._note_mine(key)
                return replica.id
            if found is not None and found.decode() != replica.id:
                self._mine.pop(key, None)
                return found.decode()

    def _note_mine(self, key: str) -> None:
        until = asyncio.get_running_loop().time() + HOME_SECONDS / _RENEWALS
        self._mine.set_and_refresh(key, _Mine(until, self._replica.lapses))

    async def _pass_on(self, home: str, call: ServerCall) -> bytes | None:
        """The result of a request at the home replica of its client; None if that one has not begun with it."""
        request, terms, caller = call.request, call.terms, caller_of(call)
        params = request.params
        if context := trace_context():
            # The span of the home replica becomes a child of ours.
            params = {**params, "_meta": {**(meta_of(params) or {}), **context}}
        passed = PassedRequest(
            id=request.id,
            method=request.method,
            params=msgspec.json.encode(params),
            session=call.session.id if terms.revision.era == "handshake" else None,
            principal=terms.principal,
            scopes=terms.scopes,
            groups=None if caller is None else caller.groups,
            client_id=None if caller is None else caller.client_id,
            token_scopes=() if caller is None else caller.scopes,
        )
        body = _encode(passed)
        if len(body) > MAX_OFFER:
            raise ProtocolError(
                INVALID_REQUEST, f"The request is larger than the {MAX_OFFER} bytes that gateways pass on"
            )
        given: Mapping[bytes, bytes] = getattr(call.sink, "request_headers", None) or {}
        headers = {name: value for name, value in given.items() if name not in CREDENTIALS}
        offer = Offer(KIND, f"gateway-request:{os.urandom(12).hex()}", _CLAIM_SECONDS, body, headers)
        return await self._remote_calls.call(home, offer, call.sink, patience=ANSWER_SECONDS)

    def _prepare(self, body: bytes) -> _PreparedRequest | None:
        passed = _decode(body)
        return _PreparedRequest(self, passed) if passed.method in self._methods else None

    async def serve_passed(self, passed: PassedRequest, sink: MessageSink) -> bytes:
        """Serve a request that another replica has passed on."""
        core = self._core
        request = Request(passed.id, passed.method, msgspec.json.decode(passed.params, type=dict[str, Any]))
        if passed.principal is not None and passed.groups is not None:
            use_caller(Caller(passed.principal, passed.groups, passed.client_id, passed.token_scopes))
        if passed.session is None:
            assert passed.principal is not None
            terms = self._envelope.terms(meta_of(request.params) or {}, None, passed.principal, passed.scopes)
            return await self._answer(ServerCall(request, terms, sink, None, self._client(passed.principal)))
        found = None if core.find_session is None else await core.find_session(passed.session, passed.principal)
        if found is None or found.terms is None:
            raise ProtocolError(INTERNAL_ERROR, "The session has ended")
        terms = msgspec.structs.replace(found.terms, principal=passed.principal, scopes=passed.scopes)
        found.busy += 1
        try:
            return await self._answer(ServerCall(request, terms, sink, found.connection, found.state))
        finally:
            found.busy -= 1

    async def _answer(self, call: ServerCall) -> bytes:
        method = self._methods[call.request.method]
        await self._note_subscribing(call)
        with serving_for_another(call):
            params = call.terms.revision.accept("client", call.request.method, call.request.params)
            outcome = method(self._core, call, params)
            assert outcome is not None
            return outcome if isinstance(outcome, bytes) else await outcome()

    async def _note_subscribing(self, call: ServerCall) -> None:
        """Say in the store that a session has subscriptions here, before it has any.

        The first replica that says so is meant until the gateway with the stream has found it gone, which then makes
        the subscriptions again: another one may become the home of the session and have others of them meanwhile.
        """
        if call.request.method == SUBSCRIBE and call.session.id is not None:
            key = self._subscriptions_key(call.session)
            await self._store.add(key, self._replica.id.encode(), SUBSCRIBED_SECONDS)

    def _client(self, principal: str) -> Session:
        session = self._clients.get_and_refresh(principal)
        if session is None:
            session = self._clients[principal] = Session(self._core, principal)
        return session

    async def _watch_homes(self) -> None:
        """Subscribe again for sessions that are notified here, when the replica that had their subscriptions ends."""
        while True:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            sessions = [session for session in self._core.sessions if session.id is not None and session.subscribes]
            for gone in self._subscribed_at.keys() - sessions:
                del self._subscribed_at[gone]
            alive: dict[str, bool] = {self._replica.id: True}
            for session in sessions:
                # A store that is away says nothing of the other replicas.
                with contextlib.suppress(StoreError):
                    await self._check_home(session, alive)

    async def _check_home(self, session: Session, alive: dict[str, bool]) -> None:
        place, key = self._subscribed_at.get(session), self._subscriptions_key(session)
        if place is None:
            found = await self._store.get(key)
            if found is None:
                return
            place = self._subscribed_at[session] = found.decode()
        if place not in alive:
            alive[place] = await self._replica.is_alive(place)
        if not alive[place]:
            await self._store.delete(key)
            del self._subscribed_at[session]
            self._core.subscribed.subscribe_again(session, lost=True)

    def _subscriptions_key(self, session: Session) -> str:
        return self._key(f"subscriptions {session.id}")

    def _key(self, owner: str) -> str:
        return f"home:{sha256(f'{self._core.view} {owner}'.encode(errors='surrogatepass')).hexdigest()[:40]}"


class _PreparedRequest:
    """A request that another replica passes on to this one."""

    def __init__(self, homes: HomeReplicas, passed: PassedRequest) -> None:
        self._homes = homes
        self._passed = passed

    async def run(self, sink: MessageSink) -> bytes:
        """Serve it."""
        return await self._homes.serve_passed(self._passed, sink)

    def cancel(self) -> None:
        """Nothing was begun."""


def owner_of_home(call: ServerCall) -> str | None:
    """The client that a home is of; None for one whose requests all reach this replica, or that is not known."""
    if call.terms.revision.era == "handshake" and call.session.keeps_state:
        return None if call.session.id is None else f"session {call.session.id}"
    principal = call.terms.principal
    # Over a WebSocket or a stream of HTTP+SSE all requests come to the replica that has it.
    return None if principal is None or call.connection is not None else f"principal {principal}"


def _era_key(server: str) -> str:
    return f"server-era:{sha256(server.encode(errors='surrogatepass')).hexdigest()[:40]}"
