"""The MCP toolset of Pydantic AI."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastmcp.client.transports import SSETransport, StdioTransport, StreamableHttpTransport
from pydantic_ai.mcp import MCPToolset
from tour import Adapter, run


class Toolset(Adapter):
    def __init__(self, toolset: Any) -> None:
        self.toolset = toolset

    async def tools(self) -> list[str]:
        return [tool.name for tool in await self.toolset.list_tools()]

    refreshed_tools = tools

    async def call(self, name: str, arguments: dict[str, Any]) -> Any:
        return await self.toolset.direct_call_tool(name, arguments)

    def resources(self) -> Any:
        return self.toolset.list_resources()

    def templates(self) -> Any:
        return self.toolset.list_resource_templates()

    def read_text(self, uri: str) -> Any:
        return self.toolset.read_resource(uri)

    read_bytes = read_template = read_missing = read_text

    def prompts(self) -> Any:
        return self.toolset.list_prompts()

    def prompt(self, name: str, arguments: dict[str, str] | None = None) -> Any:
        return self.toolset.get_prompt(name, arguments)

    prompt_with_resource = prompt_missing = prompt


@asynccontextmanager
async def connect(kind: str, mode: str, target: list[str]) -> AsyncIterator[Adapter]:
    if kind == "stdio":
        transport: Any = StdioTransport(command=target[0], args=target[1:])
    else:
        transport = SSETransport(target[0]) if kind == "sse" else StreamableHttpTransport(target[0])
    async with MCPToolset(transport) as toolset:
        yield Toolset(toolset)


if __name__ == "__main__":
    run(connect)
