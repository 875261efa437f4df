"""A clock that a test fast-forwards: hours of sleeping, polling and expiring pass in an instant."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Self, TypeVar

from dovetail.protocol.errors import LocalError
from dovetail.runtime.thread_pool import busy_threads
from dovetail.storage.memory import MemoryStore

if TYPE_CHECKING:
    from dovetail.server.app import Server
    from dovetail.server.core import ServerCore

T = TypeVar("T")

_GRACE_SECONDS = 0.0005
"""Real seconds without an event before time is skipped: what other threads and processes do takes some."""

_THREAD_SECONDS = 0.05
"""The same while threads work for this loop; one that waits for the loop must not wait for ever."""


class VirtualClock:
    """The time of the running event loop, and of servers in this process, which a test fast-forwards.

    Time passes as always, and can be skipped: whatever is due meanwhile happens, in its order and at its time. That
    holds for `asyncio.sleep`, timeouts and the polls of clients on this loop, and for the lifetime of tasks and handles
    of the servers, which are kept in memory. It holds neither for `time.sleep` nor for other processes.

        with VirtualClock(server) as clock:
            async with Client(server) as client:
                task = await client.start("report")
                await clock.advance(3600)
    """

    def __init__(self, *servers: Server) -> None:
        self._cores: list[ServerCore] = [server._core for server in servers]  # pyright: ignore[reportPrivateUsage]
        self._stores: list[MemoryStore] = []
        self._skipped = 0.0
        self._skipping = 0
        self._idle: list[asyncio.Future[None]] = []
        self._selector: Any = None

    def __enter__(self) -> Self:
        loop: Any = asyncio.get_running_loop()
        selector = getattr(loop, "_selector", None)
        if selector is None:
            raise LocalError(f"Time cannot be skipped on {type(loop).__name__}: use the event loop of asyncio")
        self._selector, real_time = selector, loop.time
        self._wait: Callable[[float | None], Any] = selector.select
        loop.time = lambda: real_time() + self._skipped
        selector.select = self._select
        for core in self._cores:
            store = MemoryStore(clock=lambda: time.monotonic() + self._skipped)
            self._stores.append(store)
            core.clock = self.time
            core.use_store(store)
        return self

    def __exit__(self, *_: object) -> None:
        # The loop keeps its time: its timers would be late if it went back.
        del self._selector.select
        for core, store in zip(self._cores, self._stores, strict=True):
            core.clock = time.time
            core.release_store(store)

    def time(self) -> float:
        """The time in seconds since 1970."""
        return time.time() + self._skipped

    async def advance(self, seconds: float) -> None:
        """Let time pass, and return when everything that is due by then has happened."""
        self._skipping += 1
        try:
            await asyncio.sleep(seconds)
        finally:
            self._skipping -= 1
        await self._until_idle()

    async def until(self, work: Awaitable[T], *, most: float = 86_400) -> T:
        """Let as much time pass as something takes, and return its result; TimeoutError after `most` seconds."""
        limit = asyncio.timeout(most)
        self._skipping += 1
        try:
            async with limit:
                return await work
        except TimeoutError:
            if limit.expired():
                raise TimeoutError(f"It is not done after {most:,.0f} seconds of skipped time") from None
            raise
        finally:
            self._skipping -= 1

    async def _until_idle(self) -> None:
        idle: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._idle.append(idle)
        await idle

    def _select(self, timeout: float | None = None) -> Any:
        """Wait for events, as the loop does when it has nothing else to do; time is skipped if there are none."""
        if not (self._skipping or self._idle) or (timeout is not None and timeout <= 0):
            return self._wait(timeout)
        events = self._wait(_THREAD_SECONDS if busy_threads() or _busy_executor() else _GRACE_SECONDS)
        if events:
            return events
        if self._idle:
            for idle in self._idle:
                if not idle.done():
                    idle.set_result(None)
            self._idle.clear()
            return events
        if timeout is None:
            return self._wait(None)  # for a thread, or for another process
        self._skipped += timeout
        return events


def _busy_executor() -> bool:
    """True if a function runs in the default executor of the loop, as with `asyncio.to_thread`."""
    executor: Any = getattr(asyncio.get_running_loop(), "_default_executor", None)
    idle, threads = getattr(executor, "_idle_semaphore", None), getattr(executor, "_threads", ())
    return idle is not None and len(threads) > idle._value
