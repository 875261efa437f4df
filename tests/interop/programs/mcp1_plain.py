"""A server of the official Python SDK, version 1, with the log settings that it has by default."""

from mcp.server.fastmcp import FastMCP

server = FastMCP("plain")


@server.tool()
def add(a: int, b: int) -> int:
    return a + b


server.run()
