"""The client of FastMCP, 2.3 to 4."""

import asyncio
import inspect
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastmcp import Client
from fastmcp.client.transports import SSETransport, StdioTransport, StreamableHttpTransport
from tour import ClientAdapter, run

ACCEPTED = frozenset(inspect.signature(Client.__init__).parameters)
CALL_OPTIONS = frozenset(inspect.signature(Client.call_tool).parameters)


class Fast(ClientAdapter):
    samples = has_roots = True
    elicits = "elicitation_handler" in ACCEPTED

    def __init__(self) -> None:
        self.client: Any = None
        self.logs: list[Any] = []
        self.methods: list[str] = []
        self.steps: list[float] = []

    async def tools(self) -> list[str]:
        return [tool.name for tool in await self.client.list_tools()]

    refreshed_tools = tools

    async def call(self, name: str, arguments: dict[str, Any]) -> Any:
        result = await self.client.call_tool(name, arguments)
        return getattr(result, "content", result)

    def templates(self) -> Any:
        return self.client.list_resource_templates()

    def complete(self, prompt: str, argument: str, value: str) -> Any:
        import mcp.types as wire

        reference = wire.PromptReference(type="ref/prompt", name=prompt)
        return self.client.complete(reference, {"name": argument, "value": value})

    async def ping(self) -> None:
        assert await self.client.ping()

    async def logged(self, tool: str) -> Any:
        await self.client.set_logging_level("info")
        await self.call(tool, {})
        while not self.logs:
            await asyncio.sleep(0.01)
        return self.logs

    async def progress(self, name: str, arguments: dict[str, Any]) -> list[float]:
        self.steps.clear()
        await self.call(name, arguments)
        return self.steps


class Structured(Fast):
    """Versions with structured results, which give them as data."""

    async def data(self) -> None:
        number = (await self.client.call_tool("add", {"a": 1, "b": 1})).data
        assert number == 2, f"the data is {number!r}"
        nothing = (await self.client.call_tool("forget", {"key": "a"})).data
        assert nothing is None, f"the data of no result is {nothing!r}"


def transport(kind: str, target: list[str]) -> Any:
    if kind == "stdio":
        return StdioTransport(command=target[0], args=target[1:])
    return SSETransport(target[0]) if kind == "sse" else StreamableHttpTransport(target[0])


def handlers(seen: Fast) -> dict[str, Any]:
    async def log(message: Any) -> None:
        seen.logs.append(message)

    async def progress(progress: float, *_: Any) -> None:
        seen.steps.append(progress)

    async def sample(*_: Any) -> str:
        return "green tea"

    async def elicit(*_: Any) -> Any:
        return {"guests": 2, "terrace": False}

    offered = {
        "log_handler": log,
        "progress_handler": progress,
        "sampling_handler": sample,
        "elicitation_handler": elicit,
        "roots": ["file:///compat"],
    }
    return {name: handler for name, handler in offered.items() if name in ACCEPTED}


@asynccontextmanager
async def connect(kind: str, mode: str, target: list[str]) -> AsyncIterator[Fast]:
    seen = Structured() if "raise_on_error" in CALL_OPTIONS else Fast()
    async with Client(transport(kind, target), **handlers(seen)) as seen.client:
        yield seen


if __name__ == "__main__":
    run(connect)
