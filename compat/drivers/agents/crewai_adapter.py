"""The MCP server adapter of CrewAI, whose tools are plain functions."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from crewai_tools import MCPServerAdapter
from mcp import StdioServerParameters
from tour import Adapter, run


class Crew(Adapter):
    error_results = False

    def __init__(self, tools: Any) -> None:
        self.by_name = {tool.name: tool for tool in tools}

    async def tools(self) -> list[str]:
        return list(self.by_name)

    async def call(self, name: str, arguments: dict[str, Any]) -> Any:
        return await asyncio.to_thread(self.by_name[name].run, **arguments)


@asynccontextmanager
async def connect(kind: str, mode: str, target: list[str]) -> AsyncIterator[Adapter]:
    remote = {"url": target[0], "transport": "sse" if kind == "sse" else "streamable-http"}
    server: Any = StdioServerParameters(command=target[0], args=target[1:]) if kind == "stdio" else remote
    adapter = await asyncio.to_thread(MCPServerAdapter, server)
    try:
        yield Crew(adapter.tools)
    finally:
        await asyncio.to_thread(adapter.stop)


if __name__ == "__main__":
    run(connect)
