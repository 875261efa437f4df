"""The MCP tools of Microsoft's Agent Framework."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from agent_framework import MCPStdioTool, MCPStreamableHTTPTool
from tour import Adapter, run


class Framework(Adapter):
    def __init__(self, tool: Any) -> None:
        self.tool = tool

    async def tools(self) -> list[str]:
        return [function.name for function in self.tool.functions]

    async def call(self, name: str, arguments: dict[str, Any]) -> Any:
        return await self.tool.call_tool(name, **arguments)

    def prompt(self, name: str, arguments: dict[str, str] | None = None) -> Any:
        return self.tool.get_prompt(name, **(arguments or {}))

    prompt_with_resource = prompt_missing = prompt


@asynccontextmanager
async def connect(kind: str, mode: str, target: list[str]) -> AsyncIterator[Adapter]:
    if kind == "stdio":
        tool: Any = MCPStdioTool("compat", target[0], args=target[1:], request_timeout=20)
    else:
        tool = MCPStreamableHTTPTool("compat", target[0], request_timeout=20)
    async with tool:
        yield Framework(tool)


if __name__ == "__main__":
    run(connect)
