"""Serving with a store where there is no HTTP: over stdio and sockets, and in workers that only run tasks."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from typing import TYPE_CHECKING

from dovetail.protocol.errors import LocalError
from dovetail.server.replicas.shared_store import SharedStore, given_store
from dovetail.storage.urls import StoreUrl

from .signals import Runner, run_until_signalled

if TYPE_CHECKING:
    from dovetail.server.core import ServerCore

    from .store_options import StoreOptions


class StoreRunner:
    """Runs something while the server's lifespan is entered and its store is joined."""

    def __init__(self, shared: SharedStore, grace: float, inner: Runner) -> None:
        self._shared = shared
        self._grace = grace
        self._inner = inner

    @property
    def running(self) -> bool:
        """True between start-up and shutdown."""
        return self._inner.running

    async def run(self) -> None:
        """Run until stopped; tasks that may be resumed are handed over, and others may end in the grace period."""
        async with self._shared.attached(self._grace):
            await self._inner.run()

    def stop(self) -> None:
        """Begin a graceful shutdown: tasks have the same time as calls."""
        self._shared.begin_to_stop_tasks(self._grace)
        self._inner.stop()


class TaskWorker:
    """Takes no requests: tasks run as long as it does."""

    def __init__(self, core: ServerCore, store: str) -> None:
        self._core = core
        self._store = store
        self._stopped = asyncio.Event()
        self.running = False
        """True between start-up and shutdown."""

    async def run(self) -> None:
        """Wait until stopped."""
        if not self._core.has_task_tools:
            raise LocalError(
                f'{self._core.info.name} has no tools that run as tasks; declare one with @server.tool(task="optional")'
            )
        self.running = True
        with contextlib.suppress(OSError, AttributeError, ValueError):  # stderr may be closed
            sys.stderr.write(f"{self._core.info.name} runs tasks of the store {self._store}; Ctrl-C ends it.\n")
            sys.stderr.flush()
        await self._stopped.wait()

    def stop(self) -> None:
        """End."""
        self.running = False
        self._stopped.set()


def run_worker(core: ServerCore, options: StoreOptions, grace: float) -> None:
    """Run the tasks of a store until a signal ends it."""
    store = given_store(options)
    if store is None or not store.shared:
        raise LocalError("A worker needs the store that the servers share: a SQLite file, or Redis")
    shown = str(store) if isinstance(store, StoreUrl) else type(store).__name__
    shared = SharedStore(core, store)
    run_until_signalled(lambda: StoreRunner(shared, grace, TaskWorker(core, shown)), grace)
