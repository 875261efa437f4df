"""The MCP plugins of Semantic Kernel."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from semantic_kernel import Kernel
from semantic_kernel.connectors.mcp import MCPSsePlugin, MCPStdioPlugin, MCPStreamableHttpPlugin
from tour import Adapter, run


class Plugin(Adapter):
    error_results = False

    def __init__(self, plugin: Any, functions: Any) -> None:
        self.plugin = plugin
        self.functions = functions

    async def tools(self) -> list[str]:
        return list(self.functions)

    async def call(self, name: str, arguments: dict[str, Any]) -> Any:
        return await self.plugin.call_tool(name, **arguments)

    def prompt(self, name: str, arguments: dict[str, str] | None = None) -> Any:
        return self.plugin.get_prompt(name, **(arguments or {}))

    prompt_with_resource = prompt_missing = prompt


@asynccontextmanager
async def connect(kind: str, mode: str, target: list[str]) -> AsyncIterator[Adapter]:
    if kind == "stdio":
        plugin: Any = MCPStdioPlugin("compat", target[0], args=target[1:])
    else:
        plugin = (MCPSsePlugin if kind == "sse" else MCPStreamableHttpPlugin)("compat", target[0])
    async with plugin:
        yield Plugin(plugin, Kernel().add_plugin(plugin).functions)


if __name__ == "__main__":
    run(connect)
