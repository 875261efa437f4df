"""The MCP client of huggingface_hub; its calls go through the session that it keeps for each tool."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from huggingface_hub import MCPClient
from tour import Adapter, run


class HuggingFace(Adapter):
    def __init__(self, client: Any) -> None:
        self.client = client

    async def tools(self) -> list[str]:
        return [tool.function.name for tool in self.client.available_tools]

    async def call(self, name: str, arguments: dict[str, Any]) -> Any:
        return await self.client.sessions[name].call_tool(name, arguments)


@asynccontextmanager
async def connect(kind: str, mode: str, target: list[str]) -> AsyncIterator[Adapter]:
    async with MCPClient(model="compat", provider="auto") as client:
        if kind == "stdio":
            await client.add_mcp_server("stdio", command=target[0], args=target[1:])
        else:
            await client.add_mcp_server(kind, url=target[0])
        yield HuggingFace(client)


if __name__ == "__main__":
    run(connect)
