"""The MCP client of Strands Agents, which runs in a thread."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mcp import StdioServerParameters
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client
from strands.tools.mcp import MCPClient
from tour import Adapter, run


class Strands(Adapter):
    def __init__(self, client: Any) -> None:
        self.client = client

    async def tools(self) -> list[str]:
        return [tool.tool_name for tool in await asyncio.to_thread(self.client.list_tools_sync)]

    refreshed_tools = tools

    async def call(self, name: str, arguments: dict[str, Any]) -> Any:
        return await self.client.call_tool_async("1", name, arguments)

    def is_error(self, result: Any) -> bool:
        return result["status"] == "error"

    def resources(self) -> Any:
        return asyncio.to_thread(self.client.list_resources_sync)

    def templates(self) -> Any:
        return asyncio.to_thread(self.client.list_resource_templates_sync)

    def read_text(self, uri: str) -> Any:
        return asyncio.to_thread(self.client.read_resource_sync, uri)

    read_bytes = read_template = read_missing = read_text

    def prompts(self) -> Any:
        return asyncio.to_thread(self.client.list_prompts_sync)

    def prompt(self, name: str, arguments: dict[str, str] | None = None) -> Any:
        return asyncio.to_thread(self.client.get_prompt_sync, name, arguments or {})

    prompt_with_resource = prompt_missing = prompt


@asynccontextmanager
async def connect(kind: str, mode: str, target: list[str]) -> AsyncIterator[Adapter]:
    if kind == "stdio":
        params = StdioServerParameters(command=target[0], args=target[1:])
        client = MCPClient(lambda: stdio_client(params))
    elif kind == "sse":
        client = MCPClient(lambda: sse_client(target[0]))
    else:
        client = MCPClient(url=target[0])
    await asyncio.to_thread(client.start)
    try:
        yield Strands(client)
    finally:
        await asyncio.to_thread(client.stop, None, None, None)


if __name__ == "__main__":
    run(connect)
