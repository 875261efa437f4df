"""Several gateways over one store, in front of a server that keeps state in its process."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from dovetail import Client, Gateway
from dovetail.gateway import ServerSettings
from dovetail.storage import Store
from tests.support.http import serving
from tests.support.raw_http import Session, Site
from tests.support.replica_clients import OpenStore

KEEPING = [sys.executable, str(Path(__file__).parent / "programs" / "keeping_server.py")]


class WatchedStore:
    """A store that notes all bytes that are given to it."""

    def __init__(self, store: Store, seen: list[bytes]) -> None:
        self._store = store
        self._seen = seen

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if name not in ("put", "add", "replace", "append"):
            return found

        def noting(*given: Any, **options: Any) -> Any:
            values = given[1] if name == "append" else [given[1]]
            self._seen.extend(values)
            return found(*given, **options)

        return noting


class Gateways:
    """Several gateways over one store, in front of a server that keeps state in its process."""

    def __init__(self, open_store: OpenStore, settings: Mapping[str, ServerSettings] | None, **options: Any) -> None:
        self._open_store = open_store
        self._settings = settings
        self._options = options
        self.stored: list[bytes] = []
        """Everything that was written to the store."""
        self._ends: list[contextlib.AsyncExitStack] = []
        self.gateways: list[Gateway] = []
        self.sites: list[Site] = []

    async def add(self) -> None:
        """Start one more."""
        end = contextlib.AsyncExitStack()
        self._ends.append(end)
        store = self._open_store()
        end.push_async_callback(store.close)
        gateway = Gateway({"keep": KEEPING}, settings=self._settings, **self._options)
        end.push_async_callback(gateway.close)
        watched = cast(Store, WatchedStore(store, self.stored))
        url = await end.enter_async_context(serving(gateway.asgi(store=watched)))
        self.sites.append(await end.enter_async_context(Site(url)))
        self.gateways.append(gateway)

    async def end(self, number: int) -> None:
        """Shut one down."""
        await self._ends[number].aclose()

    async def end_all(self) -> None:
        for end in self._ends:
            await end.aclose()

    def at(self, number: int, session: Session) -> Session:
        """A session as a client that reaches this gateway uses it."""
        return Session(self.sites[number], session.revision, session.id)

    def connections(self) -> list[int]:
        """The open connections to the server, of each gateway."""
        return [gateway.status["servers"]["keep"]["connections"] for gateway in self.gateways]

    def client(self, number: int, token: str, **options: Any) -> Client:
        return Client(f"{self.sites[number].url}/mcp", auth=token, timeout=20, **options)


Start = Callable[..., "contextlib.AbstractAsyncContextManager[Gateways]"]


@pytest.fixture
def gateways(store: OpenStore) -> Start:
    """Starts gateways."""

    @contextlib.asynccontextmanager
    async def start(
        count: int = 3, *, settings: Mapping[str, ServerSettings] | None = None, **options: Any
    ) -> AsyncGenerator[Gateways]:
        started = Gateways(store, settings, **options)
        try:
            for _ in range(count):
                await started.add()
            yield started
        finally:
            await started.end_all()

    return start
