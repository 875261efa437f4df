"""LlamaIndex: its client, and its tools where it can make them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from llama_index.tools.mcp import BasicMCPClient, McpToolSpec
from tour import Adapter, ClientAdapter, run


class LlamaIndex(ClientAdapter):
    def __init__(self, client: Any) -> None:
        self.client = client

    async def tools(self) -> list[str]:
        return [tool.name for tool in (await self.client.list_tools()).tools]

    async def call(self, name: str, arguments: dict[str, Any]) -> Any:
        return await self.client.call_tool(name, arguments)

    async def schemas(self) -> None:
        """Tools for an agent can be made of all tools."""
        names = [name for name in await self.tools() if name != "tree"]
        made = await McpToolSpec(self.client, allowed_tools=names).to_tool_list_async()
        assert len(made) == len(names), f"{len(made)} of {len(names)} tools"

    async def recursive_schema(self) -> None:
        """A tool for an agent can be made of one with a recursive type."""
        await McpToolSpec(self.client, allowed_tools=["tree"]).to_tool_list_async()

    def templates(self) -> Any:
        return self.client.list_resource_templates()


@asynccontextmanager
async def connect(kind: str, mode: str, target: list[str]) -> AsyncIterator[Adapter]:
    client = BasicMCPClient(target[0], args=target[1:], timeout=20)
    await client.list_tools()
    yield LlamaIndex(client)


if __name__ == "__main__":
    run(connect)
