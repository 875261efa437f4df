"""Running the authorization server on uvicorn: on the running loop, or as a process."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncGenerator, Callable

import uvicorn

from dovetail.server.run.signals import run_until_signalled
from dovetail.server.run.sockets import address_of, tcp_binder
from dovetail.server.run.uvicorn_server import UvicornServer

from .http_app import AuthServerApp

GRACE = 2.0


def _uvicorn(app: AuthServerApp, started: Callable[[], None]) -> UvicornServer:
    config = uvicorn.Config(
        app,
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
    """The server of a process."""

    def __init__(self, app: AuthServerApp, sockets: list[socket.socket], started: Callable[[], None]) -> None:
        self._sockets = sockets
        self._uvicorn = _uvicorn(app, self._begun)
        self._started = started
        self.running = False

    async def run(self) -> None:
        """Serve until stopped."""
        await self._uvicorn.serve(self._sockets)

    def stop(self) -> None:
        """Stop serving."""
        self.running = False
        self._uvicorn.end()

    def _begun(self) -> None:
        self.running = True
        self._started()


def run_process(app: AuthServerApp, port: int, bound: Callable[[str], None], started: Callable[[], None]) -> None:
    """Serve on the loopback interface until a signal arrives; `bound` is called with the address."""
    sockets = tcp_binder("127.0.0.1", port, allow_remote=False)()
    bound(f"http://{address_of(sockets[0])}")
    run_until_signalled(lambda: _Process(app, sockets, started), GRACE)


@contextlib.asynccontextmanager
async def serving_on_loop(app: AuthServerApp, port: int, bound: Callable[[str], None]) -> AsyncGenerator[None]:
    """Serve on the loopback interface during the block."""
    sockets = tcp_binder("127.0.0.1", port, allow_remote=False)()
    bound(f"http://{address_of(sockets[0])}")
    ready = asyncio.Event()
    server = _uvicorn(app, ready.set)
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
