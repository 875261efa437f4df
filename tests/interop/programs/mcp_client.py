"""The client of the official Python SDK, version 2: `mcp_client.py MODE COMMAND...` prints what it saw.

A URL stands for a command, too; one that ends in /sse is for the old transport.
"""

# pyright: reportMissingImports=false
import asyncio
import json
import sys
import warnings
from typing import Any

import mcp.types as wire
from mcp import Client, StdioServerParameters
from mcp.client.sse import sse_client
from mcp.shared.exceptions import MCPError
from tour import Ears, Tour, dump

warnings.simplefilter("ignore")


class Adapter:
    error = MCPError
    cancels = True

    def __init__(self, client: Any, ears: Ears) -> None:
        self.client = client
        self.ears = ears
        self.about = {
            "revision": client.protocol_version,
            "server": dump(client.server_info) if client.server_info else None,
            "capabilities": dump(client.server_capabilities),
            "instructions": client.instructions,
        }

    def list(self, method: str, cursor: str | None) -> Any:
        return getattr(self.client, f"list_{method}")(cursor=cursor)

    def call(self, name: str, arguments: Any, timeout: float | None = None, progress: Any = None) -> Any:
        return self.client.call_tool(name, arguments, timeout, progress)

    def read(self, uri: str) -> Any:
        return self.client.read_resource(uri)

    def prompt(self, name: str, arguments: Any) -> Any:
        return self.client.get_prompt(name, arguments)

    def complete(self, prompt: str, argument: str, value: str) -> Any:
        return self.client.complete(wire.PromptReference(name=prompt), {"name": argument, "value": value})

    async def logs(self) -> Any:
        if self.client.session.initialize_result is not None and self.client.server_capabilities.logging:
            await self.client.set_logging_level("info")
        await self.call("talk", {})
        await self.ears.told.wait()
        return self.ears.logs

    async def update(self, uri: str) -> str:
        """Whose change is heard of after it was asked for."""
        if self.client.session.initialize_result is not None:
            await self.client.subscribe_resource(uri)
            await self.call("touch", {"uri": uri})
            await self.ears.updated.wait()
            await self.client.unsubscribe_resource(uri)
            return uri
        async with self.client.listen(resource_subscriptions=[uri]) as events:
            await self.call("touch", {"uri": uri})
            async for event in events:
                return str(event.uri)
        return "nothing"

    async def changes(self) -> Any:
        """What is heard of when the lists change: by itself, or on request in the newest revision."""
        if self.client.session.initialize_result is not None:
            await self.client.send_ping()
            await self.call("grow", {"name": "a"})
            await self.ears.full.wait()
            return sorted(self.ears.methods)
        kinds: set[str] = set()
        wanted = {"tools_list_changed": True, "prompts_list_changed": True, "resources_list_changed": True}
        async with self.client.listen(**wanted) as events:
            await self.call("grow", {"name": "a"})
            async for event in events:
                kinds.add(type(event).__name__)
                if len(kinds) == 3:
                    break
        return sorted(kinds)


def target(command: list[str]) -> Any:
    """What the client is to connect to."""
    if not command[0].startswith("http"):
        return StdioServerParameters(command=command[0], args=command[1:])
    return sse_client(command[0]) if command[0].endswith("/sse") else command[0]


async def main(mode: str, command: list[str]) -> Any:
    ears = Ears()

    async def on_message(message: Any) -> None:
        ears.hear(getattr(message, "method", ""))

    info = wire.Implementation(name="official", version="2")
    hearing = {"message_handler": on_message, "logging_callback": ears.log, "log_level": "info"}
    async with Client(target(command), mode=mode, client_info=info, **hearing) as client:
        return await Tour(Adapter(client, ears)).run()


def codes(problem: BaseException) -> list[int]:
    """The codes of the refusals that a task group has buried."""
    if isinstance(problem, BaseExceptionGroup):
        return [code for part in problem.exceptions for code in codes(part)]
    if isinstance(problem, MCPError):
        return [problem.error.code]
    raise problem


if __name__ == "__main__":
    try:
        print(json.dumps(asyncio.run(main(sys.argv[1], sys.argv[2:]))))
    except (MCPError, BaseExceptionGroup) as problem:
        print(json.dumps({"refused": codes(problem)}))
