"""A client of the official Python SDK, version 1, as of an older day: `mcp1_meet.py REVISION URL`.

It asks for that revision, over the transport of its day, and calls `meet`.
"""

# pyright: reportMissingImports=false
import asyncio
import sys

import mcp.types as wire
from mcp import ClientSession
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamablehttp_client

revision, url = sys.argv[1:]
wire.LATEST_PROTOCOL_VERSION = revision


async def main() -> None:
    connect = sse_client if url.endswith("/sse") else streamablehttp_client
    async with connect(url) as (read, write, *_), ClientSession(read, write) as session:
        greeting = await session.initialize()
        result = await session.call_tool("meet", {})
        print(greeting.protocolVersion, result.content[0].text)


asyncio.run(main())
