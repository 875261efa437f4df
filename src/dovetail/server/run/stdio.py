"""Serving one connection from start to end, and `server.run("stdio")`."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING

from dovetail.runtime.connection import Connection
from dovetail.server.session import ServerSession
from dovetail.transports.base import Channel

from .signals import run_until_signalled

if TYPE_CHECKING:
    from dovetail.server.app import Server


class ConnectionRunner:
    """Serves one client over its channel."""

    def __init__(self, server: Server, channel: Channel, grace: float, principal: str | None = None) -> None:
        self._server = server
        self._channel = channel
        self.grace = grace
        self._session = ServerSession(server, principal)
        self._connection = Connection(channel, self._session)
        self._session.attach(self._connection)
        self.running = False
        """True between start-up and shutdown."""

    async def run(self) -> None:
        """Serve until the client disconnects; calls that were received are answered within the grace period."""
        try:
            async with self._server.joined(self._session):
                await self._serve()
        finally:
            # Also when the lifespan fails, but only after it is left: what it prints must not reach the client.
            await self._connection.close()

    async def _serve(self) -> None:
        self._connection.open()
        self.running = True
        try:
            broken = await self._session.ended
            self.running = False
            self._session.subscriptions.end()
            # A client that closed only its sending side still reads; one whose connection broke does not.
            await self._connection.finish_calls(self.grace if broken is None else 0)
        finally:
            await self._connection.stop()

    def allow(self, scopes: frozenset[str] | None) -> None:
        """Serve the next requests with the scopes of a token."""
        self._session.scopes = scopes

    def stop(self) -> None:
        """Shut down as if the client had disconnected: accept nothing new, finish what runs."""
        self.running = False
        self._channel.pause()
        self._connection.disconnected(None)


def run_stdio(server: Server, grace: float) -> None:
    """Serve over stdin and stdout until the client closes them or a signal ends it."""
    from dovetail.transports.stdio import StdioChannel, replace_closed_standard_streams

    replace_closed_standard_streams()
    if os.isatty(0):
        with contextlib.suppress(OSError, AttributeError):  # stderr may be closed
            sys.stderr.write(f"{server.info.name} waits for an MCP client on stdin; Ctrl-C ends it.\n")
    run_until_signalled(lambda: ConnectionRunner(server, StdioChannel(), grace), grace)
