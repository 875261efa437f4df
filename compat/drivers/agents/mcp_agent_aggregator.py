"""The aggregator of mcp-agent."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mcp_agent.app import MCPApp
from mcp_agent.config import LoggerSettings, MCPServerSettings, MCPSettings, Settings
from mcp_agent.mcp.mcp_aggregator import MCPAggregator
from tour import Adapter, run


class Aggregator(Adapter):
    def __init__(self, aggregator: Any) -> None:
        self.aggregator = aggregator

    async def tools(self) -> list[str]:
        return [tool.name.removeprefix("compat_") for tool in (await self.aggregator.list_tools()).tools]

    async def call(self, name: str, arguments: dict[str, Any]) -> Any:
        return await self.aggregator.call_tool(f"compat_{name}", arguments)

    def resources(self) -> Any:
        return self.aggregator.list_resources()

    def prompts(self) -> Any:
        return self.aggregator.list_prompts()

    def prompt(self, name: str, arguments: dict[str, str] | None = None) -> Any:
        return self.aggregator.get_prompt(f"compat_{name}", arguments)

    prompt_with_resource = prompt


@asynccontextmanager
async def connect(kind: str, mode: str, target: list[str]) -> AsyncIterator[Adapter]:
    remote = {"transport": "sse" if kind == "sse" else "streamable_http", "url": target[0]}
    stdio = {"transport": "stdio", "command": target[0], "args": target[1:]}
    server = MCPServerSettings(**(stdio if kind == "stdio" else remote))
    logger = LoggerSettings(type="none", progress_display=False)
    settings = Settings(execution_engine="asyncio", logger=logger, mcp=MCPSettings(servers={"compat": server}))
    async with MCPApp(name="compat", settings=settings).run() as app:
        async with MCPAggregator(["compat"], connection_persistence=True, context=app.context) as aggregator:
            yield Aggregator(aggregator)


if __name__ == "__main__":
    run(connect)
