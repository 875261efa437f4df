"""The benchmark's client on the official Python SDK, with its high-level class."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mcp import Client, StdioServerParameters  # pyright: ignore[reportMissingImports]
from timing import Opened, main


@asynccontextmanager
async def connect(target: list[str]) -> AsyncIterator[Opened]:
    server = target[0] if len(target) == 1 else StdioServerParameters(command=target[0], args=target[1:])
    async with Client(server) as client:

        async def echo(text: str) -> str:
            return (await client.call_tool("echo", {"text": text})).content[0].text

        yield Opened(echo, client.protocol_version)


main(connect)
