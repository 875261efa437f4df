"""A host as a chat sees one, over real servers in this process: no policy, no lock, no supervision."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

from dovetail import Client, Server
from dovetail.host.catalogue import HostResource, HostTool, tool_name
from dovetail.host.error_results import RefusedResult
from dovetail.host.models.contract import Model
from dovetail.runtime.pending_requests import OnProgress
from dovetail.types.content import Text
from dovetail.types.resources import ReadResourceResult
from dovetail.types.tools import CallToolResult

Forbids = Callable[[str], str | None]


class BenchHost:
    """Calls go to the servers' own clients; `forbids` gives a reason to refuse a tool by its name in the host."""

    def __init__(self, clients: Mapping[str, Client], models: Sequence[Model], forbids: Forbids) -> None:
        self._clients = clients
        self._forbids = forbids
        self.models: Sequence[Model] = models
        self.called: list[tuple[str, dict[str, Any]]] = []

    async def tools(self) -> list[HostTool]:
        return [
            HostTool(name=tool_name(key, tool.name), server=key, tool=tool)
            for key, client in self._clients.items()
            for tool in await client.tools()
        ]

    async def resources(self) -> list[HostResource]:
        return [
            HostResource(server=key, resource=resource)
            for key, client in self._clients.items()
            if client.capabilities.resources
            for resource in await client.resources()
        ]

    def instructions(self) -> dict[str, str]:
        return {key: client.instructions for key, client in self._clients.items() if client.instructions}

    async def read(self, server: str, uri: str) -> ReadResourceResult:
        return await self._clients[server].read(uri)

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        /,
        *,
        progress: OnProgress | None = None,
        check: bool = True,
        background_after: float | None = None,
    ) -> CallToolResult:
        assert not check
        self.called.append((name, dict(arguments or {})))
        if (reason := self._forbids(name)) is not None:
            return RefusedResult(content=[Text(text=reason)], is_error=True)
        found = next(tool for tool in await self.tools() if tool.name == name)
        return await self._clients[found.server].call(found.tool.name, arguments, progress=progress, check=False)


@contextlib.asynccontextmanager
async def bench(
    *models: Model, forbids: Forbids = lambda _: None, revision: str | None = None, **servers: Server
) -> AsyncIterator[BenchHost]:
    """A host with these servers, by their keys."""
    async with contextlib.AsyncExitStack() as stack:
        clients = {
            key: await stack.enter_async_context(Client(server, revision=revision)) for key, server in servers.items()
        }
        yield BenchHost(clients, models, forbids)
