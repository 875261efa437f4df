"""The stream of a session for messages that belong to no request, at whichever replica it is."""

from __future__ import annotations

from collections.abc import Sequence

from .messages import SessionNotification
from .replica import Replica


class SessionStream:
    """Message sink that announces each message: the replica that has the stream of the session sends it there."""

    congested = False
    no_requests: str | None = None

    def __init__(self, replicas: Sequence[Replica], session: str) -> None:
        self._replicas = replicas
        self._session = session

    def send(self, line: bytes) -> None:
        """Send a message to the client."""
        for replica in self._replicas:
            replica.announce(SessionNotification(self._session, line))

    def finish(self, line: bytes | None) -> None:
        """Do nothing: no request is answered here."""

    def disconnect(self, retry: float) -> None:
        """Do nothing: the stream belongs to no request."""

    async def drained(self) -> None:
        """Return at once."""
