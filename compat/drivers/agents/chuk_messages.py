"""chuk-mcp, whose functions send one message each."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import chuk_mcp
from tour import Adapter, run


class Chuk(Adapter):
    def __init__(self, streams: tuple[Any, Any]) -> None:
        self.streams = streams

    async def tools(self) -> list[str]:
        return [tool.name for tool in (await chuk_mcp.send_tools_list(*self.streams)).tools]

    refreshed_tools = tools

    async def call(self, name: str, arguments: dict[str, Any]) -> Any:
        return await chuk_mcp.send_tools_call(*self.streams, name, arguments)

    async def ping(self) -> None:
        assert await chuk_mcp.send_ping(*self.streams)

    def resources(self) -> Any:
        return chuk_mcp.send_resources_list(*self.streams)

    def read_text(self, uri: str) -> Any:
        return chuk_mcp.send_resources_read(*self.streams, uri)

    read_bytes = read_template = read_missing = read_text

    def prompts(self) -> Any:
        return chuk_mcp.send_prompts_list(*self.streams)

    def prompt(self, name: str, arguments: dict[str, str] | None = None) -> Any:
        return chuk_mcp.send_prompts_get(*self.streams, name, arguments)

    prompt_with_resource = prompt_missing = prompt


@asynccontextmanager
async def connect(kind: str, mode: str, target: list[str]) -> AsyncIterator[Adapter]:
    parameters = chuk_mcp.StdioParameters(command=target[0], args=target[1:])
    async with chuk_mcp.stdio_client(parameters) as streams:
        await chuk_mcp.send_initialize(*streams)
        yield Chuk(streams)


if __name__ == "__main__":
    run(connect)
