"""DSPy, which makes its tools of those of a session of the official SDK."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import dspy
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from tour import Adapter, run


class Dspy(Adapter):
    def __init__(self, session: Any, tools: list[Any]) -> None:
        self.session = session
        self.found = {tool.name: tool for tool in tools}

    async def tools(self) -> list[str]:
        return list(self.found)

    async def call(self, name: str, arguments: dict[str, Any]) -> Any:
        return await dspy.Tool.from_mcp_tool(self.session, self.found[name]).acall(**arguments)


@asynccontextmanager
async def connect(kind: str, mode: str, target: list[str]) -> AsyncIterator[Adapter]:
    async with stdio_client(StdioServerParameters(command=target[0], args=target[1:])) as (read, write):
        async with ClientSession(read, write) as session:
            await session.initialize()
            yield Dspy(session, (await session.list_tools()).tools)


if __name__ == "__main__":
    run(connect)
