"""Lost subscriptions: those of connections that were lost, until they are made again over other connections."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from dovetail.protocol.errors import ConnectionLost, DovetailError

if TYPE_CHECKING:
    from dovetail.server.session import Session
    from dovetail.types.capabilities import ClientCapabilities

    from .connection import Subscribers, UpstreamConnection
    from .leases import ConnectionKey

logger = logging.getLogger("dovetail")


class LostConnection(NamedTuple):
    """A connection that was lost, and the subscriptions that it had."""

    capabilities: ClientCapabilities
    subscribers: Subscribers


class LostSubscriptions:
    """The subscriptions that are to be made again, by connection."""

    def __init__(self) -> None:
        self._lost: dict[ConnectionKey, LostConnection] = {}

    def add(self, key: ConnectionKey, capabilities: ClientCapabilities, subscribers: Subscribers) -> None:
        """Remember the subscriptions of a connection that was lost."""
        known = self._lost.setdefault(key, LostConnection(capabilities, {})).subscribers
        for uri, sessions in subscribers.items():
            known.setdefault(uri, {}).update(sessions)

    async def make_again(self, key: ConnectionKey, connection: UpstreamConnection) -> None:
        """Make the subscriptions of a connection again, over another one; if that is lost too, they stay here."""
        lost = self._lost.pop(key, None)
        for uri, sessions in ({} if lost is None else lost.subscribers).items():
            try:
                for session, known_as in sessions.items():
                    await connection.subscribe(uri, session, known_as)
                connection.report_update(uri)  # nobody knows what has happened to it meanwhile
            except ConnectionLost:
                self.add(key, connection.declared_by_client, {uri: sessions})
            except DovetailError as problem:
                logger.warning("Clients are not notified of changes of %s any more: %s", uri, problem)

    def take_all(self) -> dict[ConnectionKey, LostConnection]:
        """All of them, for another object that makes them again."""
        lost, self._lost = self._lost, {}
        return lost

    def __contains__(self, key: ConnectionKey) -> bool:
        return key in self._lost

    def has(self, session: Session) -> bool:
        """True if a session waits for a subscription."""
        return any(session in sessions for lost in self._lost.values() for sessions in lost.subscribers.values())

    def remove(self, session: Session, uri: str | None = None) -> None:
        """A session has ended its subscription to a resource, or all of them."""
        for key, lost in list(self._lost.items()):
            for name in [uri] if uri is not None else list(lost.subscribers):
                sessions = lost.subscribers.get(name, {})
                sessions.pop(session, None)
                if not sessions:
                    lost.subscribers.pop(name, None)
            if not lost.subscribers:
                del self._lost[key]
