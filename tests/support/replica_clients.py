"""Replicas of a server in one process, each with objects of its own, and clients of them over HTTP."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any

from dovetail import Client, Gateway, Server
from dovetail.storage import Store
from tests.support.asking import asked
from tests.support.http import serving
from tests.support.redis_server import shared_redis

OpenStore = Callable[[], Store]
"""Opens a store that all replicas share."""


def opens_redis() -> OpenStore:
    """Opens stores with one prefix in the Redis of this process."""
    from dovetail.storage import RedisStore

    prefix = os.urandom(8).hex() + ":"
    return lambda: RedisStore(shared_redis().url, prefix=prefix)


@contextlib.asynccontextmanager
async def replicas(
    make: Callable[[], Server | Gateway],
    store: OpenStore,
    count: int = 3,
    *,
    client: Mapping[str, Any] | None = None,
    **options: Any,
) -> AsyncGenerator[list[Client]]:
    """Clients, each connected to a replica of its own; `client` are their options."""
    async with contextlib.AsyncExitStack() as stack:
        clients: list[Client] = []
        for _ in range(count):
            opened = store()
            stack.push_async_callback(opened.close)
            url = await stack.enter_async_context(serving(make().asgi(store=opened, **options)))
            clients.append(await stack.enter_async_context(asked(url + "/mcp", **(client or {}))))
        yield clients
