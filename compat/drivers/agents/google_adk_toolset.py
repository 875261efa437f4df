"""The MCP toolset of Google's Agent Development Kit."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

from google.adk.tools.mcp_tool import mcp_session_manager as connections
from google.adk.tools.mcp_tool.mcp_toolset import McpToolset
from mcp import StdioServerParameters
from tour import Adapter, run


class Toolset(Adapter):
    def __init__(self, tools: list[Any]) -> None:
        self.by_name = {tool.name: tool for tool in tools}

    async def tools(self) -> list[str]:
        return list(self.by_name)

    async def call(self, name: str, arguments: dict[str, Any]) -> Any:
        context = SimpleNamespace(
            state={}, custom_metadata={}, _invocation_context=SimpleNamespace(), tool_confirmation=None, session=None
        )
        return await self.by_name[name].run_async(args=arguments, tool_context=context)

    def is_error(self, result: Any) -> bool:
        return bool(result.get("isError") or result.get("is_error") or "error" in result)

    async def schemas(self) -> None:
        """A declaration for Gemini can be made of every tool."""
        for tool in self.by_name.values():
            assert tool._get_declaration().name == tool.name


@asynccontextmanager
async def connect(kind: str, mode: str, target: list[str]) -> AsyncIterator[Adapter]:
    if kind == "stdio":
        params = StdioServerParameters(command=target[0], args=target[1:])
        server: Any = connections.StdioConnectionParams(server_params=params, timeout=20)
    elif kind == "sse":
        server = connections.SseConnectionParams(url=target[0], timeout=20)
    else:
        server = connections.StreamableHTTPConnectionParams(url=target[0], timeout=20)
    toolset = McpToolset(connection_params=server)
    try:
        yield Toolset(await toolset.get_tools())
    finally:
        await toolset.close()


if __name__ == "__main__":
    run(connect)
