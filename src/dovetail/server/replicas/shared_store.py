"""The store of a server, and what is kept there: one that can be shared makes this process one of several replicas."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from dovetail.protocol.errors import LocalError
from dovetail.server.run.store_options import STORE_VARIABLE
from dovetail.server.session import Session
from dovetail.storage.contract import Store, StoreError
from dovetail.storage.urls import StoreUrl

if TYPE_CHECKING:
    from dovetail.server.core import ServerCore

    from .remote_calls import RemoteCalls
    from .replica import Replica

logger = logging.getLogger("dovetail")

TaskPlace: TypeAlias = Literal["here", "workers"]
"""The processes that run tasks: those that serve, or only those of `dovetail worker`."""

NO_WORKERS = 'tasks="workers" needs a store that the workers share: a SQLite file, or Redis'


def given_store(options: Mapping[str, Any]) -> Store | StoreUrl | None:
    """The store among the options of a server, or that of the environment; LocalError for a URL that is wrong."""
    given: Store | str | os.PathLike[str] | None = options.get("store", os.environ.get(STORE_VARIABLE) or None)
    return StoreUrl(given) if isinstance(given, (str, os.PathLike)) else given


def check_task_place(tasks: str, store: Store | StoreUrl | None) -> None:
    """Raise LocalError for a place that does not exist, or that no worker can reach."""
    if tasks not in ("here", "workers"):
        raise LocalError(f'tasks is "here" or "workers", not {tasks!r}')
    if tasks == "workers" and (store is None or not store.shared):
        raise LocalError(NO_WORKERS)


class SharedStore:
    """The store that a server was given, for as long as one application or transport serves it.

    A store that was given by its URL is opened when it is first used, and closed at the end.
    """

    def __init__(
        self, core: ServerCore, given: Store | StoreUrl | None, *, ephemeral: bool = False, tasks: TaskPlace = "here"
    ) -> None:
        """`ephemeral` is true if the store is of no use to a later run, as that which the workers of one run share."""
        self._core = core
        self._given = given
        self._ephemeral = ephemeral
        self._tasks: TaskPlace = tasks
        self._store: Store | None = None
        self.replica: Replica | None = None
        """This process among those that share the store, if it is one that can be shared."""
        self.remote_calls: RemoteCalls | None = None
        self._stopping_tasks: asyncio.Task[None] | None = None

    @property
    def store(self) -> Store:
        """The store; without a given one it is in memory."""
        if self._store is None:
            if self._given is None:
                from dovetail.storage.memory import MemoryStore

                self._store = MemoryStore()
            elif isinstance(self._given, StoreUrl):
                self._store = self._given.open()
            else:
                self._store = self._given
        return self._store

    @property
    def common(self) -> Store | None:
        """The store that other applications may use too: the one that was given, or that of all workers."""
        return None if self._given is None else self.store

    async def join(self, joined: Callable[[Replica], None] = lambda _: None) -> None:
        """Keep in the store what has to be known elsewhere, or later; join the replicas that share it.

        `joined` is called before the replica receives anything.
        """
        core = self._core
        if self._given is None:
            warning = core.share_used_states(None, survives_restart=False)
            if warning is not None:
                logger.warning(warning)
            return
        store = self.store
        core.use_store(store)
        core.share_used_states(store, survives_restart=store.shared and not self._ephemeral)
        if store.shared and self.replica is None:
            await self._join_replicas(store, joined)

    async def _join_replicas(self, store: Store, joined: Callable[[Replica], None]) -> None:
        from .remote_calls import RemoteCalls
        from .replica import Replica

        core = self._core
        core.share_keys(store)
        replica = self.replica = Replica(store)
        core.join(replica)
        core.runs_tasks = self._tasks == "here"
        self.remote_calls = RemoteCalls(replica)
        core.share_calls(self.remote_calls)
        joined(replica)
        await replica.open()
        if core.has_task_tools:
            _ = core.tasks  # which joins the replica, and looks for tasks that wait

    def begin_to_stop_tasks(self, grace: float) -> None:
        """Hand the tasks that run here over to others, as far as their authors allow it."""
        if self._stopping_tasks is None:
            self._stopping_tasks = asyncio.get_running_loop().create_task(self._stop_tasks(grace))

    async def stop_tasks(self, grace: float) -> None:
        """Wait until no task runs here any more, which the grace period bounds."""
        self.begin_to_stop_tasks(grace)
        assert self._stopping_tasks is not None
        await asyncio.shield(self._stopping_tasks)

    async def _stop_tasks(self, grace: float) -> None:
        for tasks in self._core.all_tasks():
            if self.replica is not None and tasks.replica is self.replica:
                await tasks.stop(grace)

    async def leave(self) -> None:
        """Leave the other replicas, which know it at once. Calls and tasks have ended."""
        if self.remote_calls is not None:
            await self.remote_calls.close()
        if self.replica is not None:
            self._core.leave(self.replica)
            await self.replica.close()

    async def close(self) -> None:
        """Close the store, unless it was given open."""
        if self._store is not None and self._store is not self._given:
            self._core.release_store(self._store)
            await self._store.close()

    @contextlib.asynccontextmanager
    async def attached(self, grace: float) -> AsyncGenerator[None]:
        """Have the lifespan entered and the store joined for a while; LocalError if the store cannot be used."""
        try:
            async with self._core.attached(Session(self._core)):
                try:
                    try:
                        await self.join()
                    except StoreError as problem:
                        raise LocalError(f"The store cannot be used: {problem}") from problem
                    yield
                finally:
                    if self.remote_calls is not None:
                        await self.remote_calls.finish(0)
                    await self.stop_tasks(grace)
                    await self.leave()
        finally:
            await self.close()
