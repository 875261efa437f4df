"""Lost subscriptions: those of connections that were lost, until they are made again over other connections."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from dovetail.server.session import Session
    from dovetail.types.capabilities import ClientCapabilities

    from .connection import Subscribers
    from .leases import ConnectionKey


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

    def take(self, key: ConnectionKey) -> Subscribers:
        """The subscriptions of a connection, to be made again now."""
        lost = self._lost.pop(key, None)
        return {} if lost is None else lost.subscribers

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
