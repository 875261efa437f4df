"""The authorization server on uvicorn: on a loop that runs already, or as a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncGenerator, Callable

import uvicorn

from dovetail.server.run.signals import run_until_signalled
from dovetail.server.run.sockets import address_of, tcp_binder
from dovetail.server.run.uvicorn_server import UvicornServer

from .http_app import Site

GRACE = 2.0


def _uvicorn(site: Site, started: Callable[[], None]) -> UvicornServer:
    config = uvicorn.Config(
        site,
        ws="none",
        log_config=None,
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=int(GRACE),
    )
    return UvicornServer(config, started)


class _Process:
    """What a process serves with."""

    def __init__(self, site: Site, sockets: list[socket.socket], started: Callable[[], None]) -> None:
        self._sockets = sockets
        self._uvicorn = _uvicorn(site, self._begun)
        self._started = started
        self.running = False

    async def run(self) -> None:
        """Serve until stopped."""
        await self._uvicorn.serve(self._sockets)

    def stop(self) -> None:
        """Come to an end."""
        self.running = False
        self._uvicorn.end()

    def _begun(self) -> None:
        self.running = True
        self._started()


def run_process(site: Site, port: int, bound: Callable[[str], None], started: Callable[[], None]) -> None:
    """Serve on this machine alone until a signal says to end; `bound` is told the address."""
    sockets = tcp_binder("127.0.0.1", port, allow_remote=False)()
    bound(f"http://{address_of(sockets[0])}")
    run_until_signalled(lambda: _Process(site, sockets, started), GRACE)


@contextlib.asynccontextmanager
async def on_this_loop(site: Site, port: int, bound: Callable[[str], None]) -> AsyncGenerator[None]:
    """Serve meanwhile."""
    sockets = tcp_binder("127.0.0.1", port, allow_remote=False)()
    bound(f"http://{address_of(sockets[0])}")
    ready = asyncio.Event()
    server = _uvicorn(site, ready.set)
    serving = asyncio.create_task(server.serve(sockets))
    try:
        waiting = asyncio.create_task(ready.wait())
        await asyncio.wait([waiting, serving], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        yield
    finally:
        server.end()
        await serving
        for one in sockets:
            one.close()
