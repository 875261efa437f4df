"""A server with one tool, to be started by a gateway with rules."""

from __future__ import annotations

from dovetail import Server

server = Server("guarded")


@server.tool
async def echo(text: str) -> str:
    return text


if __name__ == "__main__":
    server.run("stdio")
