"""The MCP tools of Agno."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from agno.tools.mcp import MCPTools
from tour import Adapter, run


class Agno(Adapter):
    def __init__(self, tools: Any) -> None:
        self.functions = tools.functions

    async def tools(self) -> list[str]:
        return list(self.functions)

    async def call(self, name: str, arguments: dict[str, Any]) -> Any:
        return await self.functions[name].entrypoint(**arguments)

    def is_error(self, result: Any) -> bool:
        return str(result.content).startswith("Error from MCP tool")


@asynccontextmanager
async def connect(kind: str, mode: str, target: list[str]) -> AsyncIterator[Adapter]:
    from mcp import StdioServerParameters

    if kind == "stdio":
        params = StdioServerParameters(command=target[0], args=target[1:])
        tools = MCPTools(server_params=params, transport="stdio", timeout_seconds=20)
    else:
        transport = "sse" if kind == "sse" else "streamable-http"
        tools = MCPTools(url=target[0], transport=transport, timeout_seconds=20)
    await tools.connect()
    try:
        yield Agno(tools)
    finally:
        await tools.close()


if __name__ == "__main__":
    run(connect)
