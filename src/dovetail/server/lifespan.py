"""What a server sets up before its first client and takes down after its last.

A server's lifespan under an ASGI application, which may have none of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

from dovetail.server.session import ServerSession

if TYPE_CHECKING:
    from dovetail.server.app import Server


class SharedLifespan:
    """Enters a context for the first user and leaves it after the last.

    One task does both, because what a lifespan holds (task groups, cancel scopes) may insist on it.
    """

    def __init__(self, make: Callable[[], AbstractAsyncContextManager[Any]]) -> None:
        self._make = make
        self._users = 0
        self._keeper: asyncio.Task[None] | None = None
        self._entered: asyncio.Future[Any] | None = None
        self._leave: asyncio.Event | None = None
        self._before: asyncio.Task[None] | None = None

    async def enter(self) -> Any:
        """Wait until the context is entered, and return what it yields; whoever fails to enter has left."""
        self._users += 1
        if self._entered is None:
            self._entered = asyncio.get_running_loop().create_future()
            self._leave = asyncio.Event()
            self._keeper = asyncio.create_task(self._keep(self._entered, self._leave, self._before))
        try:
            return await asyncio.shield(self._entered)
        except BaseException:
            await self.leave()
            raise

    async def leave(self) -> None:
        """One user less; the last one waits until the context is left."""
        self._users -= 1
        if self._users == 0 and self._leave is not None and self._keeper is not None:
            keeper = self._before = self._keeper
            self._leave.set()
            if self._entered is not None and not self._entered.done():
                keeper.cancel()  # nobody is left who waits for it to be entered
            self._keeper = self._entered = self._leave = None
            # Shielded: a user in a hurry must not cut the teardown short.
            await asyncio.shield(keeper)

    async def _keep(
        self, entered: asyncio.Future[Any], leave: asyncio.Event, before: asyncio.Task[None] | None
    ) -> None:
        try:
            if before is not None and not before.done():
                await asyncio.wait({before})
            async with self._make() as state:
                entered.set_result(state)
                await leave.wait()
        except asyncio.CancelledError:
            entered.cancel()
            raise
        except BaseException as problem:
            if entered.done():
                raise
            entered.set_exception(problem)
            entered.exception()  # all who wait may have been cancelled


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
