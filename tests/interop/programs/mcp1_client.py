"""The client of the official Python SDK, version 1: `mcp1_client.py COMMAND...` prints what it saw.

A URL stands for a command, too; one that ends in /sse is for the old transport.
"""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
import asyncio
import json
import sys
from datetime import timedelta
from typing import Any

import mcp.types as wire
from mcp import ClientSession, StdioServerParameters, stdio_client
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamablehttp_client
from mcp.shared.exceptions import McpError
from pydantic import AnyUrl
from tour import Ears, Tour, dump


class Adapter:
    error = McpError
    cancels = False

    def __init__(self, session: Any, greeting: Any, ears: Ears) -> None:
        self.session = session
        self.ears = ears
        self.about = {
            "revision": greeting.protocolVersion,
            "server": dump(greeting.serverInfo),
            "capabilities": dump(greeting.capabilities),
            "instructions": greeting.instructions,
        }

    def list(self, method: str, cursor: str | None) -> Any:
        return getattr(self.session, f"list_{method}")(cursor=cursor)

    def call(self, name: str, arguments: Any, timeout: float | None = None, progress: Any = None) -> Any:
        limit = None if timeout is None else timedelta(seconds=timeout)
        return self.session.call_tool(name, arguments, limit, progress)

    def read(self, uri: str) -> Any:
        return self.session.read_resource(AnyUrl(uri))

    def prompt(self, name: str, arguments: Any) -> Any:
        return self.session.get_prompt(name, arguments)

    def complete(self, prompt: str, argument: str, value: str) -> Any:
        reference = wire.PromptReference(type="ref/prompt", name=prompt)
        return self.session.complete(reference, {"name": argument, "value": value})

    async def logs(self) -> Any:
        await self.session.set_logging_level("info")
        await self.call("talk", {})
        await self.ears.told.wait()
        return self.ears.logs

    async def update(self, uri: str) -> str:
        await self.session.subscribe_resource(AnyUrl(uri))
        await self.call("touch", {"uri": uri})
        await self.ears.updated.wait()
        await self.session.unsubscribe_resource(AnyUrl(uri))
        return uri

    async def changes(self) -> Any:
        await self.session.send_ping()
        await self.call("grow", {"name": "a"})
        await self.ears.full.wait()
        return sorted(self.ears.methods)


def connection(command: list[str]) -> Any:
    """The transport to a command or a URL."""
    if not command[0].startswith("http"):
        return stdio_client(StdioServerParameters(command=command[0], args=command[1:]))
    return (sse_client if command[0].endswith("/sse") else streamablehttp_client)(command[0])


async def main(command: list[str]) -> Any:
    ears = Ears()

    async def on_message(message: Any) -> None:
        ears.hear(getattr(getattr(message, "root", None), "method", ""))

    info = wire.Implementation(name="official", version="1")
    hearing = {"message_handler": on_message, "logging_callback": ears.log}
    async with (
        connection(command) as (read, write, *_),
        ClientSession(read, write, client_info=info, **hearing) as session,
    ):
        return await Tour(Adapter(session, await session.initialize(), ears)).run()


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(sys.argv[1:]))))
