"""The MCP tools of AutoGen in one session, each made by itself: one that it cannot make loses all others otherwise."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from autogen_core import CancellationToken
from autogen_ext.tools.mcp import (
    SseMcpToolAdapter,
    SseServerParams,
    StdioMcpToolAdapter,
    StdioServerParams,
    StreamableHttpMcpToolAdapter,
    StreamableHttpServerParams,
    create_mcp_server_session,
    mcp_server_tools,
)
from tour import Adapter, run


class AutoGen(Adapter):
    def __init__(self, make: Any, found: list[Any], make_all: Any) -> None:
        self.make = make
        self.found = {tool.name: tool for tool in found}
        self.make_all = make_all

    async def tools(self) -> list[str]:
        return list(self.found)

    async def call(self, name: str, arguments: dict[str, Any]) -> Any:
        return await self.make(self.found[name]).run_json(arguments, CancellationToken())

    async def schemas(self) -> None:
        """All tools can be made at once, as `mcp_server_tools` does."""
        await self.make_all()


@asynccontextmanager
async def connect(kind: str, mode: str, target: list[str]) -> AsyncIterator[Adapter]:
    if kind == "stdio":
        params: Any = StdioServerParams(command=target[0], args=target[1:], read_timeout_seconds=20)
        of_kind: Any = StdioMcpToolAdapter
    elif kind == "sse":
        params, of_kind = SseServerParams(url=target[0]), SseMcpToolAdapter
    else:
        params, of_kind = StreamableHttpServerParams(url=target[0]), StreamableHttpMcpToolAdapter
    async with create_mcp_server_session(params) as session:
        await session.initialize()
        found = (await session.list_tools()).tools
        yield AutoGen(lambda tool: of_kind(params, tool, session), found, lambda: mcp_server_tools(params, session))


if __name__ == "__main__":
    run(connect)
