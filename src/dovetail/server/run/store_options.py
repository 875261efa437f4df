"""The options of `Server.run` for what outlives a call, over every transport."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from dovetail.server.core import ServerCore
    from dovetail.server.replicas.shared_store import TaskPlace
    from dovetail.storage.contract import Store

    from .signals import Runner

STORE_VARIABLE = "DOVETAIL_STORE"
"""The environment variable with the URL of the store, for servers that were given none."""


class StoreOptions(TypedDict, total=False):
    """The store of a server, and the processes that run its tasks."""

    store: Store | str | os.PathLike[str] | None
    """The store of tasks and handles, or its URL, or the path of a SQLite file; by default that of `DOVETAIL_STORE`,
    else in memory."""
    tasks: TaskPlace
    """The processes that run tasks: "here", or "workers" that share the store (`dovetail worker`)."""


def with_store(
    core: ServerCore, options: Mapping[str, Any], grace: float, make: Callable[[], Runner]
) -> Callable[[], Runner]:
    """A function that makes the runner, within the store that the options or the environment name, if any."""
    if "store" not in options and "tasks" not in options and not os.environ.get(STORE_VARIABLE):
        return make  # a server without a store starts without what one takes
    from dovetail.server.replicas.shared_store import SharedStore, check_task_place, given_store

    from .store_runner import StoreRunner

    store, tasks = given_store(options), options.get("tasks", "here")
    check_task_place(tasks, store)
    if store is None:
        return make
    return lambda: StoreRunner(SharedStore(core, store, tasks=tasks), grace, make())
