"""The MCP toolset of Haystack."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from haystack_integrations.tools.mcp import MCPToolset, SSEServerInfo, StdioServerInfo, StreamableHttpServerInfo
from tour import Adapter, run


class Toolset(Adapter):
    error_results = False

    def __init__(self, tools: list[Any]) -> None:
        self.by_name = {tool.name: tool for tool in tools}

    async def tools(self) -> list[str]:
        return list(self.by_name)

    async def call(self, name: str, arguments: dict[str, Any]) -> Any:
        return await asyncio.to_thread(self.by_name[name].invoke, **arguments)


@asynccontextmanager
async def connect(kind: str, mode: str, target: list[str]) -> AsyncIterator[Adapter]:
    if kind == "stdio":
        server: Any = StdioServerInfo(command=target[0], args=target[1:])
    else:
        server = (SSEServerInfo if kind == "sse" else StreamableHttpServerInfo)(url=target[0])
    toolset = await asyncio.to_thread(MCPToolset, server, eager_connect=True, invocation_timeout=20)
    try:
        yield Toolset(list(toolset))
    finally:
        await asyncio.to_thread(toolset.close)


if __name__ == "__main__":
    run(connect)
