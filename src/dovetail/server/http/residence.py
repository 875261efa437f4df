"""A server's lifespan under an ASGI application, which may have none of its own."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from dovetail.server.session import ServerSession

if TYPE_CHECKING:
    from dovetail.server.app import Server


class Residence:
    """Keeps the server's lifespan entered, from the first request to the end of the application."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._keeper: asyncio.Task[None] | None = None
        self._inside: asyncio.Future[None] | None = None
        self._leave: asyncio.Event | None = None
        self.entered = False

    async def enter(self) -> None:
        """Wait until it is entered; whoever comes first begins, and whoever comes after a failure tries again."""
        if self._inside is None:
            loop = asyncio.get_running_loop()
            self._inside, self._leave = loop.create_future(), asyncio.Event()
            self._keeper = loop.create_task(self._keep(self._inside, self._leave), name="dovetail-residence")
        await asyncio.shield(self._inside)

    async def leave(self) -> None:
        """Leave it and wait for that."""
        if self._leave is not None and self._keeper is not None:
            self._leave.set()
            await asyncio.wait({self._keeper})

    async def _keep(self, inside: asyncio.Future[None], leave: asyncio.Event) -> None:
        try:
            async with self._server.joined(ServerSession(self._server)):
                self.entered = True
                inside.set_result(None)
                await leave.wait()
        except BaseException as problem:
            if inside.done():
                raise
            self._inside = None
            inside.set_exception(problem)
            inside.exception()  # all who wait may have gone
        finally:
            self.entered = False
