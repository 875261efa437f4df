"""The client connection of fast-agent."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fast_agent.config import MCPServerSettings
from fast_agent.mcp.gen_client import gen_client
from fast_agent.mcp_server_registry import ServerRegistry
from tour import Adapter, ClientAdapter, run


class FastAgent(ClientAdapter):
    def __init__(self, client: Any) -> None:
        self.client = client

    async def tools(self) -> list[str]:
        return [tool.name for tool in (await self.client.list_tools()).tools]

    async def call(self, name: str, arguments: dict[str, Any]) -> Any:
        return await self.client.call_tool(name, arguments)


@asynccontextmanager
async def connect(kind: str, mode: str, target: list[str]) -> AsyncIterator[Adapter]:
    remote = {"transport": kind, "url": target[0]}
    stdio = {"transport": "stdio", "command": target[0], "args": target[1:]}
    settings = MCPServerSettings(name="compat", **(stdio if kind == "stdio" else remote))
    registry = ServerRegistry()
    registry.registry["compat"] = settings
    async with gen_client("compat", registry, server_config=settings) as client:
        yield FastAgent(client)


if __name__ == "__main__":
    run(connect)
