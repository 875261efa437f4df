"""A FastMCP client that calls tools and prints the schemas and the value of each result as JSON.

The arguments are the command of the server.
"""

import asyncio
import json
import sys

from fastmcp import Client
from fastmcp.client.transports import StdioTransport


async def main() -> None:
    command, *arguments = sys.argv[1:]
    seen = {}
    async with Client(StdioTransport(command, arguments)) as client:
        for tool in await client.list_tools():
            result = await client.call_tool(tool.name, {"a": 1, "b": 2} if tool.name == "add" else {})
            blocks = [block.type for block in result.content]
            seen[tool.name] = {"input": tool.inputSchema, "data": result.data, "blocks": blocks}
    print(json.dumps(seen))


asyncio.run(main())
