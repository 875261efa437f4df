"""The client of the official Python SDK, version 1: `mcp1_client.py COMMAND...` prints what it saw."""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
import asyncio
import json
import sys
from datetime import timedelta
from typing import Any

import mcp.types as wire
from mcp import ClientSession, StdioServerParameters, stdio_client
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

    async def changes(self) -> Any:
        await self.session.send_ping()
        await self.call("grow", {"name": "a"})
        await self.ears.full.wait()
        return sorted(self.ears.methods)


async def main(command: list[str]) -> Any:
    ears = Ears()

    async def on_message(message: Any) -> None:
        ears.hear(getattr(getattr(message, "root", None), "method", ""))

    info = wire.Implementation(name="official", version="1")
    target = StdioServerParameters(command=command[0], args=command[1:])
    async with (
        stdio_client(target) as (read, write),
        ClientSession(read, write, message_handler=on_message, client_info=info) as session,
    ):
        return await Tour(Adapter(session, await session.initialize(), ears)).run()


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(sys.argv[1:]))))
