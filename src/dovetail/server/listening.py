"""Serving the many clients that arrive at a Unix or TCP socket.

The lifespan of the server spans them all, and one that fails takes no other with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from dovetail.transports.sockets import SocketChannel

from .addresses import Bind, address_of, at_path, at_port
from .run import Serving
from .session import ServerSession
from .signals import run_to_the_end

if TYPE_CHECKING:
    from .app import Server

logger = logging.getLogger("dovetail")

MAX_CLIENTS = 512
"""Clients served at once; who comes then is turned away. Many systems allow a process 1024 open files."""

_BACKLOG = 1024
_END_SECONDS = 1.0

Started = Callable[["Listening"], None]


async def listen_unix(
    server: Server,
    path: str | os.PathLike[str],
    *,
    grace: float = 5.0,
    mode: int = 0o600,
    max_clients: int = MAX_CLIENTS,
    started: Started | None = None,
) -> None:
    """Serve whoever connects to a Unix socket, until cancelled; `mode` are the rights of its file.

    `started` is called when clients can connect, with what can be stopped gracefully.
    """
    bind, removed = at_path(path, mode)
    with removed:
        await Listening(server, bind, grace, max_clients, started=started).run()


async def listen_tcp(
    server: Server,
    host: str = "127.0.0.1",
    port: int = 0,
    *,
    grace: float = 5.0,
    allow_remote: bool = False,
    max_clients: int = MAX_CLIENTS,
    started: Started | None = None,
) -> None:
    """Serve whoever connects to a TCP port of this machine, until cancelled.

    There is no encryption and nobody is asked who they are: `allow_remote` is for networks where all may come.
    """
    bind = at_port(host, port, allow_remote=allow_remote)
    await Listening(server, bind, grace, max_clients, only_json=True, started=started).run()


def run_unix(server: Server, path: str | os.PathLike[str], grace: float, *, mode: int = 0o600) -> None:
    """Serve at a Unix socket until a signal says to end."""
    bind, removed = at_path(path, mode)
    with removed:
        run_to_the_end(lambda: Listening(server, bind, grace, started=_announce), grace)


def run_tcp(server: Server, host: str, port: int, grace: float, *, allow_remote: bool = False) -> None:
    """Serve at a TCP port until a signal says to end."""
    bind = at_port(host, port, allow_remote=allow_remote)
    run_to_the_end(lambda: Listening(server, bind, grace, only_json=True, started=_announce), grace)


class Listening:
    """A server and all who come to its sockets."""

    def __init__(
        self,
        server: Server,
        bind: Bind,
        grace: float,
        max_clients: int = MAX_CLIENTS,
        *,
        only_json: bool = False,
        started: Started | None = None,
    ) -> None:
        self._server = server
        self._bind = bind
        self._grace = grace
        self._max_clients = max_clients
        self._only_json = only_json
        self._started = started
        self._clients: dict[asyncio.Task[None], Serving] = {}
        self._stopped = asyncio.Event()
        self._full = False
        self.running = False
        """Not still starting, and not ending already."""
        self.addresses: list[str] = []
        """Where clients connect to."""

    @property
    def name(self) -> str:
        """The server's name."""
        return self._server.info.name

    @property
    def clients(self) -> int:
        """How many are served now."""
        return len(self._clients)

    async def run(self) -> None:
        """Serve until stopped; whoever is connected then has the grace period to get the answers that are due.

        The lifespan is entered once, before the first client, and left after the last.
        """
        with contextlib.ExitStack() as bound:
            sockets = [bound.enter_context(contextlib.closing(one)) for one in self._bind()]
            async with self._server.joined(ServerSession(self._server)):
                listeners = [await self._listener(one) for one in sockets]
                try:
                    await self._serve(listeners)
                finally:
                    self.running = False
                    await self._end(listeners)

    def stop(self) -> None:
        """Take no new client, and end as if those who are here had ended their side."""
        self.running = False
        self._stopped.set()
        for serving in self._clients.values():
            serving.stop()

    async def _serve(self, listeners: list[asyncio.Server]) -> None:
        self.running = True
        for listener in listeners:
            await listener.start_serving()
            self.addresses += [address_of(one) for one in listener.sockets]
        if self._started is not None:
            self._started(self)
        await self._stopped.wait()
        for listener in listeners:
            listener.close()
        if self._clients:
            await asyncio.wait(self._clients)

    async def _end(self, listeners: list[asyncio.Server]) -> None:
        for listener in listeners:
            listener.close()
        for client in self._clients:
            client.cancel()
        if self._clients:
            await asyncio.wait(self._clients)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_END_SECONDS):
                for listener in listeners:
                    await listener.wait_closed()

    async def _listener(self, bound: socket.socket) -> asyncio.Server:
        loop = asyncio.get_running_loop()
        create = loop.create_server if bound.family in (socket.AF_INET, socket.AF_INET6) else loop.create_unix_server
        return await create(self._channel, sock=bound, backlog=_BACKLOG, start_serving=False)

    def _channel(self) -> SocketChannel:
        return SocketChannel(only_json=self._only_json, connected=self._arrived)

    def _arrived(self, channel: SocketChannel) -> None:
        if not self.running or len(self._clients) >= self._max_clients:
            if self.running and not self._full:
                # Said once until there is room again: who is turned away may come again and again.
                self._full = True
                logger.warning("%s has %d clients; more are turned away", self.name, len(self._clients))
            channel.abort()
            return
        serving = Serving(self._server, channel, self._grace)
        task = asyncio.get_running_loop().create_task(self._serve_one(serving))
        self._clients[task] = serving
        task.add_done_callback(self._left)

    async def _serve_one(self, serving: Serving) -> None:
        try:
            await serving.run()
        except Exception:
            logger.exception("Serving a client failed")

    def _left(self, task: asyncio.Task[None]) -> None:
        del self._clients[task]
        self._full = False


def _announce(listening: Listening) -> None:
    with contextlib.suppress(OSError, AttributeError, ValueError):  # stderr may be closed
        if sys.stderr.isatty():
            where = ", ".join(listening.addresses)
            sys.stderr.write(f"{listening.name} waits for MCP clients at {where}; Ctrl-C ends it.\n")
