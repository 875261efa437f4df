"""mcpadapt with its adapter for LangChain."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mcp import StdioServerParameters
from mcpadapt.core import MCPAdapt
from mcpadapt.langchain_adapter import LangChainAdapter
from tour import Adapter, run


class Adapted(Adapter):
    error_results = False

    def __init__(self, tools: list[Any]) -> None:
        self.by_name = {tool.name: tool for tool in tools}

    async def tools(self) -> list[str]:
        return list(self.by_name)

    async def call(self, name: str, arguments: dict[str, Any]) -> Any:
        return await self.by_name[name].ainvoke(arguments)


@asynccontextmanager
async def connect(kind: str, mode: str, target: list[str]) -> AsyncIterator[Adapter]:
    remote = {"url": target[0], "transport": "sse" if kind == "sse" else "streamable-http"}
    server: Any = StdioServerParameters(command=target[0], args=target[1:]) if kind == "stdio" else remote
    async with MCPAdapt(server, LangChainAdapter()) as tools:
        yield Adapted(tools)


if __name__ == "__main__":
    run(connect)
