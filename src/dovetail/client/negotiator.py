"""Negotiator: makes the attempts of a negotiation (`client/negotiation`) until a server and a client agree."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from typing import Any, Literal, Protocol

import msgspec

from dovetail.auth.errors import AuthorizationFailed
from dovetail.protocol.deadline import Timeouts
from dovetail.protocol.envelope import SERVER_INFO, request_meta
from dovetail.protocol.errors import (
    ConnectionLost,
    DovetailError,
    HttpStatus,
    InvalidAnswer,
    OutcomeUnknown,
    RemoteError,
)
from dovetail.protocol.extension import extensions_on
from dovetail.protocol.revisions import HANDSHAKE, NEWEST, NEWEST_HANDSHAKE, REVISIONS, Revision
from dovetail.runtime.connection import Connection, Trace
from dovetail.transports.base import MAX_RECEIVED
from dovetail.types.capabilities import ClientCapabilities, Implementation
from dovetail.types.messages import DiscoverResult, InitializeParams, InitializeResult
from dovetail.types.serialization import Value, load

from .negotiation import (
    SHARED_ERAS,
    Agreement,
    EraCache,
    Event,
    State,
    failure_event,
    first_event,
    may_speak_sse,
    newest_of,
    next_state,
    offered_revision,
)

PROBE_SECONDS = 5.0
"""Seconds that a server may take to answer the probe before the handshake is tried as well."""

_OVER_SSE = (State.SSE_ASSUMED, State.LEGACY_SSE)


class ConnectOptions(msgspec.Struct, kw_only=True):
    """Everything that a connection needs to know of its client."""

    info: Implementation
    capabilities: ClientCapabilities
    revision: Revision | None = None
    """The revision that the caller wants; None for the newest that both sides have."""
    timeout: float | None = None
    max_message_bytes: int = MAX_RECEIVED
    log_level: str | None = None
    trace: Trace | None = None
    eras: EraCache = SHARED_ERAS
    raw_results: bool = False
    """Results are decoded only for requests that want it, as a gateway passes most of them on."""

    def declared(self, revision: Revision) -> ClientCapabilities:
        """The capabilities that the client declares on a revision."""
        extensions = extensions_on(revision, self.capabilities.extensions)
        return msgspec.structs.replace(self.capabilities, extensions=extensions)


class OnAgreed(Protocol):
    """Takes over the outcome of the first request before any other message is sent."""

    def agreed(self, revision: Revision, server: Implementation | None) -> None:
        """Use a revision from now on."""
        ...


class Connector(OnAgreed, Protocol):
    """Opens and closes the connections over which a negotiation goes."""

    @property
    def key(self) -> Hashable | None:
        """The key of the server in the era cache."""
        ...

    @property
    def restartable(self) -> bool:
        """True if a server that has ended can be started again, and may have ended because of what it was sent."""
        ...

    @property
    def legacy_sse(self) -> bool:
        """True if the server may speak HTTP+SSE."""
        ...

    async def connect(self, transport: Literal["default", "legacy_sse"]) -> Connection:
        """Open a connection in place of the one before, if any."""
        ...

    async def disconnect(self) -> str:
        """Close the connection, if there is one; why it was lost."""
        ...


class Negotiator:
    """One negotiation; `run` walks the table of transitions."""

    def __init__(self, connector: Connector, options: ConnectOptions) -> None:
        self._connector = connector
        self._options = options
        self._connection: Connection | None = None
        self._probe: asyncio.Future[Agreement] | None = None
        self._revision = options.revision
        """The revision of the next attempt: the pinned one, or one that the server has named."""
        self._agreement: Agreement | None = None
        self._problem: DovetailError | None = None

    async def run(self) -> Agreement:
        """The agreement; raises the error of the attempt that decided."""
        pinned, eras, key = self._options.revision, self._options.eras, self._connector.key
        state, before = State.START, State.START
        try:
            while state not in (State.AGREED, State.FAILED):
                if state is State.START:
                    event = first_event(pinned, eras.get(key))
                else:
                    event = await self._attempt(state)
                before, state = state, next_state(state, event)
                if state is not State.AGREED and (pinned is None or before in _OVER_SSE) and before is not State.START:
                    eras.forget(key)
        finally:
            await self._stop_probe()
        if self._agreement is None:
            assert self._problem is not None
            raise self._problem if pinned is None else _explained(self._problem, pinned)
        if pinned is not None and self._agreement.revision is not pinned:
            offered = self._agreement.revision.name
            raise ConnectionLost(f"The server does not speak {pinned.name}; it offers {offered}")
        if before in _OVER_SSE:
            eras.remember(key, "sse")
        elif pinned is None:
            eras.remember(key, self._agreement.revision.era)
        return self._agreement

    async def _attempt(self, state: State) -> Event:
        """Make the attempt of a state; its outcome is kept and told as an event."""
        options, connector = self._options, self._connector
        if state in _OVER_SSE and not await self._connect_sse():
            return Event.NOT_OFFERED
        if state is State.RESTARTED:
            lost = ConnectionLost(await connector.disconnect())
            self._connection = await connector.connect("default")
        else:
            lost = None
        if self._connection is None:
            self._connection = await connector.connect("default")
        try:
            if state is State.PROBING:
                agreement = await self._probed(self._connection)
                if agreement is None:
                    return Event.LEGACY_ANSWER
            elif state is State.DISCOVERING:
                agreement = await discover(self._connection, options, self._revision or NEWEST, connector)
            else:
                revision = self._revision if state is State.INITIALIZING else options.revision
                agreement = await self._initialized(self._connection, revision or NEWEST_HANDSHAKE)
        except DovetailError as problem:
            # A server that ends again after its restart failed for the reason that it ended for at first.
            is_lost = lost is not None and isinstance(problem, ConnectionLost)
            self._problem = lost if is_lost and lost is not None else problem
            event = failure_event(
                state,
                problem,
                options.revision,
                legacy_sse=connector.legacy_sse,
                restartable=connector.restartable,
            )
            if event in (Event.ENVELOPE_OFFERED, Event.HANDSHAKE_OFFERED) and isinstance(problem, RemoteError):
                self._revision = offered_revision(problem)
            return event
        self._agreement = agreement
        return Event.ACCEPTED

    async def _connect_sse(self) -> bool:
        """Connect over HTTP+SSE; False where the server does not offer it."""
        if self._connection is not None:
            await self._connector.disconnect()
            self._connection = None
        try:
            self._connection = await self._connector.connect("legacy_sse")
        except AuthorizationFailed:
            raise
        except DovetailError:
            return False
        return True

    async def _probed(self, connection: Connection) -> Agreement | None:
        """The outcome of `server/discover`; None where the server is silent, and the probe stays open."""
        options = self._options
        limit = PROBE_SECONDS if options.timeout is None else min(PROBE_SECONDS, options.timeout)
        probe = self._probe = asyncio.ensure_future(discover(connection, options, NEWEST, self._connector))
        done, _ = await asyncio.wait({probe}, timeout=limit)
        while not done and connection.pending.paused:
            # A user is logging in: that is no silence of the server's.
            done, _ = await asyncio.wait({probe}, timeout=limit)
        if not done:
            return None
        self._probe = None
        return probe.result()

    async def _initialized(self, connection: Connection, revision: Revision) -> Agreement:
        """The outcome of `initialize`, or that of a probe which a slow server has answered meanwhile."""
        try:
            return await initialize(connection, self._options, revision, self._connector)
        except (RemoteError, InvalidAnswer):
            probe = self._probe
            if probe is not None and probe.done() and probe.exception() is None:
                return probe.result()
            raise

    async def _stop_probe(self) -> None:
        if self._probe is not None:
            self._probe.cancel()
            await asyncio.gather(self._probe, return_exceptions=True)


async def discover(
    connection: Connection, options: ConnectOptions, revision: Revision, on_agreed: OnAgreed
) -> Agreement:
    """Send `server/discover` (2026-07-28 lifecycle, "Discovery")."""
    params = {"_meta": request_meta(revision, options.info, options.declared(revision), options.log_level)}
    raw = await _request(connection, options, "server/discover", params)
    result = _load_result(revision, "server/discover", raw)
    if not isinstance(result, DiscoverResult):
        raise InvalidAnswer("server/discover was answered with something else than a discovery")
    if revision.name not in result.supported_versions:
        other = newest_of(result.supported_versions, "envelope")
        if other is None:
            raise InvalidAnswer(f"The server speaks {result.supported_versions}, none of which we know")
        revision = other
    server = _server_info(result)
    on_agreed.agreed(revision, server)
    return Agreement(revision, server, result.capabilities, result.instructions)


async def initialize(
    connection: Connection, options: ConnectOptions, revision: Revision, on_agreed: OnAgreed
) -> Agreement:
    """Send `initialize` for a revision, and `notifications/initialized` (lifecycle, "Initialization")."""
    params = InitializeParams(revision.name, options.declared(revision), options.info)
    raw = await _request(connection, options, "initialize", revision.emit(params))
    result = _load_result(revision, "initialize", raw)
    assert isinstance(result, InitializeResult)
    agreed = REVISIONS.get(result.protocol_version)
    if agreed is None or agreed.era != "handshake":
        raise InvalidAnswer(f"The server offers revision {result.protocol_version!r}; we speak {', '.join(HANDSHAKE)}")
    # First on our side: from the notification on the server may send whatever the revision allows.
    on_agreed.agreed(agreed, result.server_info)
    connection.notify("notifications/initialized")
    return Agreement(agreed, result.server_info, result.capabilities, result.instructions)


async def _request(connection: Connection, options: ConnectOptions, method: str, params: dict[str, Any]) -> Any:
    try:
        return await connection.pending.request(method, params, Timeouts(options.timeout), cancellable=False)
    except OutcomeUnknown as problem:
        # What it did at the server ends with the connection; only the cause matters.
        cause = problem.__cause__
        raise cause if isinstance(cause, HttpStatus) else ConnectionLost(problem.reason) from cause


def _server_info(result: DiscoverResult) -> Implementation | None:
    info = (result.meta or {}).get(SERVER_INFO)
    try:
        return None if info is None else load(Implementation, info)
    except msgspec.ValidationError as problem:
        raise InvalidAnswer(f"server/discover was answered with a bad {SERVER_INFO}: {problem}") from None


def _load_result(revision: Revision, method: str, raw: object) -> Value:
    try:
        return revision.load_result(method, raw)
    except RemoteError as problem:
        raise InvalidAnswer(problem.message) from None


def _explained(problem: DovetailError, pinned: Revision) -> DovetailError:
    """The error for a caller who wants one revision: a refusal was about that revision."""
    explained: DovetailError
    if isinstance(problem, HttpStatus) and may_speak_sse(problem):
        explained = HttpStatus(f"The server does not speak {pinned.name}: {problem}", problem.status, problem.url)
    elif isinstance(problem, RemoteError):
        explained = ConnectionLost(f"The server does not speak {pinned.name}: {problem}")
    else:
        return problem
    explained.__cause__ = problem
    return explained
