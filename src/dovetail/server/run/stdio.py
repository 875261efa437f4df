"""Serving one connection from beginning to end, and a whole process over stdio."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING

from dovetail.runtime.connection import Connection
from dovetail.server.session import ServerSession
from dovetail.transports.base import Channel

from .signals import run_to_the_end

if TYPE_CHECKING:
    from dovetail.server.app import Server


class Serving:
    """A server and one client of it."""

    def __init__(self, server: Server, channel: Channel, grace: float, principal: str | None = None) -> None:
        self._server = server
        self._channel = channel
        self.grace = grace
        self._session = ServerSession(server, principal)
        self._connection = Connection(channel, self._session)
        self._session.attach(self._connection)
        self.running = False
        """Not still starting, and not ending already."""

    async def run(self) -> None:
        """Serve until the client goes; calls that were read are answered within the grace period."""
        try:
            async with self._server.joined(self._session):
                await self._serve()
        finally:
            # Also when the lifespan fails, and not before it is left: what it prints is not for the client.
            await self._connection.close()

    async def _serve(self) -> None:
        self._connection.open()
        self.running = True
        try:
            broken = await self._session.ended
            self.running = False
            self._session.subscriptions.end()
            # A client that only ended its side still reads; one that broke off does not.
            await self._connection.finish_calls(self.grace if broken is None else 0)
        finally:
            await self._connection.stop()

    def allow(self, scopes: frozenset[str] | None) -> None:
        """Serve what comes next with a token of these scopes."""
        self._session.scopes = scopes

    def stop(self) -> None:
        """Take nothing new and end as if the client had gone."""
        self.running = False
        self._channel.pause()
        self._connection.disconnected(None)


def run_stdio(server: Server, grace: float) -> None:
    """Serve over stdin and stdout until the client closes them or a signal says to end."""
    from dovetail.transports.stdio import StdioChannel, mend_standard_streams

    mend_standard_streams()
    if os.isatty(0):
        with contextlib.suppress(OSError, AttributeError):  # stderr may be closed
            sys.stderr.write(f"{server.info.name} waits for an MCP client on stdin; Ctrl-C ends it.\n")
    run_to_the_end(lambda: Serving(server, StdioChannel(), grace), grace)
