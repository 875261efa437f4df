"""The MCP client of smolagents, whose tools are plain functions."""

import asyncio
import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mcp import StdioServerParameters
from smolagents import MCPClient
from tour import Adapter, run, shown


class Smol(Adapter):
    error_results = False

    def __init__(self, tools: list[Any]) -> None:
        self.by_name = {tool.name: tool for tool in tools}

    async def tools(self) -> list[str]:
        return list(self.by_name)

    async def call(self, name: str, arguments: dict[str, Any]) -> Any:
        return await asyncio.to_thread(self.by_name[name], **arguments)

    def shown(self, result: Any) -> str:
        if hasattr(result, "save") and hasattr(result, "mode"):
            file = io.BytesIO()
            result.save(file, format="PNG")
            return shown(file.getvalue())
        return shown(result)


@asynccontextmanager
async def connect(kind: str, mode: str, target: list[str]) -> AsyncIterator[Adapter]:
    remote = {"url": target[0], "transport": "sse" if kind == "sse" else "streamable-http"}
    server: Any = StdioServerParameters(command=target[0], args=target[1:]) if kind == "stdio" else remote
    client = await asyncio.to_thread(MCPClient, server, structured_output=False)
    try:
        yield Smol(client.get_tools())
    finally:
        await asyncio.to_thread(client.disconnect)


if __name__ == "__main__":
    run(connect)
