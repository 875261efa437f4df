"""A server's lifespan: set up before its first client, taken down after its last."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

logger = logging.getLogger("dovetail")


class SharedLifespan:
    """A context that is entered for the first of its users and left after the last.

    One task does both, because what a lifespan holds (task groups, cancel scopes) may insist on it.
    """

    def __init__(self, make: Callable[[], AbstractAsyncContextManager[Any]]) -> None:
        self._make = make
        self._users = 0
        self._task: asyncio.Task[None] | None = None
        self._entered: asyncio.Future[Any] | None = None
        self._leave: asyncio.Event | None = None
        self._previous: asyncio.Task[None] | None = None

    async def enter(self) -> Any:
        """Wait until the context is entered, and return what it yields; a user that fails to enter need not leave."""
        self._users += 1
        if self._entered is None:
            self._entered = asyncio.get_running_loop().create_future()
            self._leave = asyncio.Event()
            self._task = asyncio.create_task(
                self._hold(self._entered, self._leave, self._previous), name="dovetail-lifespan"
            )
        try:
            return await asyncio.shield(self._entered)
        except BaseException:
            await self.leave()
            raise

    async def leave(self) -> None:
        """Count one user less; the last one waits until the context is left."""
        self._users -= 1
        if self._users == 0 and self._leave is not None and self._task is not None:
            task = self._previous = self._task
            self._leave.set()
            if self._entered is not None and not self._entered.done():
                task.cancel()  # no user is left that waits for it
            self._task = self._entered = self._leave = None
            # Shielded: a user that is cancelled must not cut the teardown short.
            await asyncio.shield(task)

    async def _hold(
        self, entered: asyncio.Future[Any], leave: asyncio.Event, previous: asyncio.Task[None] | None
    ) -> None:
        try:
            if previous is not None and not previous.done():
                await asyncio.wait({previous})
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
            entered.exception()  # all users that wait may have been cancelled


class ApplicationLifespan:
    """A server's membership in its lifespan for as long as an ASGI application serves it.

    The first request joins, the end of the application leaves; no task is kept in between. Both run in a short task of
    their own: a request that is cancelled while it waits must not undo what the next one waits for too, and a
    shutdown that is cancelled must not cut the teardown short.
    """

    def __init__(self, join: Callable[[], AbstractAsyncContextManager[object]]) -> None:
        self._join = join
        self._context: AbstractAsyncContextManager[object] | None = None
        self._joining: asyncio.Task[None] | None = None
        self.entered = False

    async def enter(self) -> None:
        """Wait until the lifespan is entered; after a failure the next request tries again."""
        if self._joining is None:
            self._joining = asyncio.create_task(self._enter(), name="dovetail-lifespan-enter")
        await asyncio.shield(self._joining)

    async def leave(self) -> None:
        """Leave the lifespan, if it was entered, and wait for that; a failure is logged."""
        if self._joining is not None:
            await asyncio.wait({asyncio.create_task(self._leave(self._joining), name="dovetail-lifespan-leave")})

    async def _enter(self) -> None:
        context = self._join()
        try:
            await context.__aenter__()
        except BaseException:
            self._joining = None
            raise
        self._context, self.entered = context, True

    async def _leave(self, joining: asyncio.Task[None]) -> None:
        await asyncio.wait({joining})
        context, self._context, self.entered = self._context, None, False
        if context is not None:
            try:
                await context.__aexit__(None, None, None)
            except Exception:
                logger.exception("The server's lifespan failed while it was left")
