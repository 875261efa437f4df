"""uvicorn with an end of its own: what runs may finish, what reads is told, and nobody can hold it up.

uvicorn that serves until it is told to end, by whoever runs it.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Generator

import uvicorn

from dovetail.protocol.errors import LocalError
from dovetail.server.http.asgi_app import Endpoint

_TICK_SECONDS = 1.0
"""How often the date of the answers is renewed."""


class UntilEnded(uvicorn.Server):
    """Says when it is ready, and serves until `end`; signals are not its business."""

    def __init__(self, config: uvicorn.Config, begun: Callable[[], None]) -> None:
        super().__init__(config)
        self._begun = begun
        self._ended = asyncio.Event()

    def end(self) -> None:
        """Come to an end, now."""
        self._ended.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leave them to who runs us: uvicorn would raise them again at the end."""
        yield

    async def main_loop(self) -> None:
        """Wait for the end."""
        await self.on_tick(0)
        self._begun()
        while not self._ended.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_TICK_SECONDS):
                    await self._ended.wait()
            await self.on_tick(0)


FAREWELL_SECONDS = 1.0
"""How long those who still read get for what was written to them, once everything has ended."""

_LOOK_SECONDS = 0.01


class GracefulUvicorn(UntilEnded):
    """Serves one endpoint."""

    def __init__(
        self, config: uvicorn.Config, endpoint: Endpoint, grace: float, relays: bool, begun: Callable[[], None]
    ) -> None:
        super().__init__(config, begun)
        self._endpoint = endpoint
        self._grace = grace
        self._relays = relays
        """Whether connections may wait for what other workers answer."""

    def end(self) -> None:
        """Come to an end, now."""
        for listener in self.servers:
            listener.close()
        super().end()

    def cut_off(self) -> None:
        """Drop every connection."""
        self._abort()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin; uvicorn would end the process where a lifespan fails."""
        try:
            await super().startup(sockets)
        except SystemExit:
            raise LocalError("The server could not start; its log says why") from None

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let calls finish, end streams and WebSockets in order, and drop who does not read what is left."""
        self.end()
        for one in sockets or ():
            one.close()
        self._let_go_of_idle()
        now = asyncio.get_running_loop().time
        deadline = now() + self._grace
        await self._endpoint.close(self._grace)
        await self._wait_for_connections(FAREWELL_SECONDS + (max(deadline - now(), 0) if self._relays else 0))
        self._abort()
        await self._wait_for_connections(FAREWELL_SECONDS)
        await self.lifespan.shutdown()

    def _let_go_of_idle(self) -> None:
        """Close what answers nothing now, and the others after their answer; WebSockets say goodbye by themselves."""
        kind = self.config.http_protocol_class
        for connection in list(self.server_state.connections):
            if isinstance(connection, kind):
                connection.shutdown()

    async def _wait_for_connections(self, seconds: float) -> None:
        state = self.server_state
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while state.connections or state.tasks:
                    if state.tasks:
                        await asyncio.wait(state.tasks, timeout=_LOOK_SECONDS)
                    else:
                        await asyncio.sleep(_LOOK_SECONDS)
                    self._let_go_of_idle()

    def _abort(self) -> None:
        for connection in list(self.server_state.connections):
            connection.transport.abort()
