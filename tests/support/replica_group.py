"""Replicas in the process of a test: several applications of one server, on ports of their own, behind one nginx."""

from __future__ import annotations

import contextlib
import itertools
import os
import tempfile
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from dovetail import Server
from dovetail.storage import RedisStore
from tests.support.http import Asgi
from tests.support.nginx import Nginx
from tests.support.shared_uvicorn import Applications, applications

REPLICAS = int(os.environ.get("DOVETAIL_REPLICAS", "0"))
"""The number of replicas for tests that can choose it, behind nginx and with Redis; 0 for one server without both."""

T = TypeVar("T")


class ReplicaGroup:
    """Servers that are replicas of one another, and what their handlers share, as in a database."""

    def __init__(self) -> None:
        self.servers: list[Server] = []
        self._state: dict[str, Any] = {}

    def shared(self, name: str, make: Callable[[], T]) -> T:
        """The state with this name, made by the first replica that asks."""
        return self._state.setdefault(name, make())


@contextlib.asynccontextmanager
async def shared_stores(number: int = REPLICAS) -> AsyncIterator[list[RedisStore]]:
    """A store in Redis for each replica of one server, under a prefix of their own."""
    from tests.support.redis_server import shared_redis

    prefix = f"{uuid.uuid4().hex}:"
    async with contextlib.AsyncExitStack() as stack:
        stores = [RedisStore(shared_redis().url, prefix=prefix) for _ in range(number)]
        for store in stores:
            stack.push_async_callback(store.close)
        yield stores


class ReplicaHosts:
    """Ports for replicas behind nginx; an application is mounted at all of them, under the same path."""

    def __init__(self, hosts: Sequence[Applications], nginx: Nginx) -> None:
        self._hosts = hosts
        self._nginx = nginx
        self._numbers = itertools.count(1)

    @contextlib.contextmanager
    def mounted(self, apps: Sequence[Asgi]) -> Iterator[str]:
        """Serve one application at each port for a while; yields the address of nginx, without the scheme."""
        name = f"replica{next(self._numbers)}"
        with contextlib.ExitStack() as stack:
            for host, app in zip(self._hosts, apps, strict=True):
                stack.enter_context(host.mounted(app, name))
            yield f"{self._nginx.url.partition(':')[2]}/{name}"


@contextlib.contextmanager
def behind_nginx(urls: Sequence[str]) -> Iterator[Nginx]:
    """Run nginx in front of replicas, in plain round robin."""
    ports = [int(url.rpartition(":")[2]) for url in urls]
    with (
        tempfile.TemporaryDirectory(prefix="dovetail-nginx-") as folder,
        Nginx.for_replicas(Path(folder), ports) as nginx,
    ):
        yield nginx


@contextlib.asynccontextmanager
async def replica_hosts(number: int = REPLICAS) -> AsyncIterator[ReplicaHosts]:
    """Ports for replicas, and nginx in front of them."""
    async with contextlib.AsyncExitStack() as stack:
        hosts = [await stack.enter_async_context(applications()) for _ in range(number)]
        yield ReplicaHosts(hosts, stack.enter_context(behind_nginx([host.url for host in hosts])))
