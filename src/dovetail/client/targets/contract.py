"""Target contract: how a client reaches one kind of server, and what that kind can do."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol

from dovetail.transports.base import MAX_RECEIVED, Channel


class PausableTimeouts(Protocol):
    """The timeouts of the requests that wait for an answer."""

    def pause(self) -> None:
        """Pause them."""
        ...

    def resume(self) -> None:
        """Resume them, once for each pause."""
        ...


class ServerTarget:
    """A server that a client connects to; its class attributes declare capabilities."""

    key: Hashable | None = None
    """The key of the server in the era cache; None for a server that is not remembered."""
    label = "The server"
    """The name of the server in log messages."""
    url: str | None = None
    """The URL that credentials are for, of a server that is reached over a network."""
    restartable = False
    """True if each connection starts a new server process, so that one that has ended can be restarted."""
    legacy_sse = False
    """True if the server may speak HTTP+SSE; then there is `connect_legacy_sse`."""

    async def connect(self, max_message_bytes: int = MAX_RECEIVED) -> Channel:
        """A new channel to the server, which accepts no longer message from it."""
        raise NotImplementedError

    async def connect_legacy_sse(self, max_message_bytes: int = MAX_RECEIVED) -> Channel:
        """A new channel over HTTP+SSE."""
        raise NotImplementedError

    def use_timeouts(self, timeouts: PausableTimeouts) -> None:
        """Pause these timeouts while a user logs in, where that can happen."""

    async def release(self) -> None:
        """Release what a channel needed that is closed now."""
