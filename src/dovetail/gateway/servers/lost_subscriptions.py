"""Lost subscriptions: those of connections that were lost, until they are made again over other connections."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from dovetail.client.retry_policy import is_temporary
from dovetail.gateway.errors import ServerUnavailable
from dovetail.protocol.errors import ConnectionLost, DovetailError, Timeout
from dovetail.types.bounded_dict import BoundedDict
from dovetail.wire.jsonrpc import Id

from .resource_subscriptions import FIRST_PAUSE, MAX_PAUSE, discard, has_subscriber

if TYPE_CHECKING:
    from dovetail.server.session import Session
    from dovetail.types.capabilities import ClientCapabilities

    from .connection import UpstreamConnection
    from .leases import ConnectionKey
    from .resource_subscriptions import Subscribers
    from .upstream import Upstream

logger = logging.getLogger("dovetail")

MAX_REMOVED = 100
"""Servers whose subscriptions are kept after they were removed from the configuration."""

_PROBE_DELAY = 0.05


class LostConnection(NamedTuple):
    """A connection that was lost, and the subscriptions that it had."""

    capabilities: ClientCapabilities
    subscribers: Subscribers


class LostSubscriptions:
    """The subscriptions to resources of one server that are to be made again, by connection."""

    def __init__(self) -> None:
        self._lost: dict[ConnectionKey, LostConnection] = {}
        self._restoring: set[ConnectionKey] = set()

    def add(self, key: ConnectionKey, capabilities: ClientCapabilities, subscribers: Subscribers) -> None:
        """Remember the subscriptions of a connection that was lost."""
        known = self._lost.setdefault(key, LostConnection(capabilities, {})).subscribers
        for uri, added in subscribers.items():
            known.setdefault(uri, set()).update(added)

    async def restore(self, key: ConnectionKey, upstream: Upstream) -> None:
        """Make the subscriptions of a connection again as soon as there is another."""
        if key in self._restoring:
            return
        self._restoring.add(key)
        loop, pause = asyncio.get_running_loop(), FIRST_PAUSE
        try:
            while (lost := self._lost.get(key)) is not None and not upstream.is_closed:
                try:
                    connection = await upstream.reach(key, lost.capabilities)
                except ServerUnavailable:
                    await asyncio.sleep(upstream.breaker.pause(loop.time()) + _PROBE_DELAY)
                    continue
                problem = await self._make_again(key, lost, connection)
                if problem is None:
                    upstream.answered()
                    continue
                # Over HTTP the connection is there although the server is away.
                if isinstance(problem, Timeout):
                    upstream.timed_out(problem)
                elif isinstance(problem, ConnectionLost):
                    upstream.lost(problem, connection)
                await asyncio.sleep(max(upstream.breaker.pause(loop.time()) + _PROBE_DELAY, pause))
                pause = min(2 * pause, MAX_PAUSE)
        finally:
            self._restoring.discard(key)

    async def _make_again(
        self, key: ConnectionKey, lost: LostConnection, connection: UpstreamConnection
    ) -> DovetailError | None:
        """Make subscriptions again; the error because of which some stay here."""
        failed: DovetailError | None = None
        for uri in list(lost.subscribers):
            # They stay here until they are made, so that one that is ended meanwhile is not made.
            subscribers = lost.subscribers.get(uri)
            if not subscribers:
                continue
            try:
                await connection.subscribe(uri, subscribers)
            except DovetailError as problem:
                if is_temporary(problem):
                    failed = problem
                    if isinstance(problem, ConnectionLost | Timeout):
                        break
                    continue
                logger.warning("Clients are not notified of changes of %s any more: %s", uri, problem)
            if not connection.is_usable:
                return ConnectionLost("the connection was lost")
            self._forget(key, uri)
            connection.report_update(uri)  # nobody knows what has happened to it meanwhile
        return failed

    def take_all(
        self, connections: Mapping[ConnectionKey, UpstreamConnection] | None = None
    ) -> dict[ConnectionKey, LostConnection]:
        """All of them, and those of the connections, for another object that makes them again."""
        for key, connection in (connections or {}).items():
            if subscribers := connection.subscribers():
                self.add(key, connection.declared_by_client, subscribers)
        lost, self._lost = self._lost, {}
        return lost

    def __bool__(self) -> bool:
        return bool(self._lost)

    def has(self, session: Session) -> bool:
        """True if a session waits for a subscription."""
        return any(has_subscriber(lost.subscribers, session) for lost in self._lost.values())

    def remove(self, session: Session, known_as: str | None = None, request: Id | None = None) -> None:
        """A session has ended one of its subscriptions, or all."""
        for key, lost in list(self._lost.items()):
            for uri, subscribers in list(lost.subscribers.items()):
                discard(subscribers, session, known_as, request)
                if not subscribers:
                    self._forget(key, uri)

    def _forget(self, key: ConnectionKey, uri: str) -> None:
        lost = self._lost.get(key)
        if lost is not None:
            lost.subscribers.pop(uri, None)
            if not lost.subscribers:
                del self._lost[key]


class RemovedServers:
    """The subscriptions to resources of servers that were removed; they are made again if these are added again."""

    def __init__(self) -> None:
        self._by_server: BoundedDict[str, LostSubscriptions] = BoundedDict(MAX_REMOVED)

    def keep(self, server: str, lost: Mapping[ConnectionKey, LostConnection]) -> None:
        """Keep the subscriptions of a server that was removed."""
        kept = LostSubscriptions()
        for key, (capabilities, subscribers) in lost.items():
            kept.add(key, capabilities, subscribers)
        if kept:
            self._by_server[server] = kept

    def take(self, server: str) -> dict[ConnectionKey, LostConnection]:
        """The subscriptions of a server that is added again."""
        kept = self._by_server.pop(server, None)
        return {} if kept is None else kept.take_all()

    def remove(self, session: Session, known_as: str | None = None, request: Id | None = None) -> None:
        """A session has ended one of its subscriptions, or all."""
        for server, kept in list(self._by_server.items()):
            kept.remove(session, known_as, request)
            if not kept:
                del self._by_server[server]
