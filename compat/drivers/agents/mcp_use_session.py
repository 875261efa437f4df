"""The session of mcp-use."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import mcp.types as wire
from mcp_use import MCPClient
from pydantic import AnyUrl
from tour import Adapter, run


class Session(Adapter):
    elicits = samples = True

    def __init__(self, session: Any) -> None:
        self.session = session

    async def tools(self) -> list[str]:
        return [tool.name for tool in await self.session.list_tools()]

    refreshed_tools = tools

    async def call(self, name: str, arguments: dict[str, Any]) -> Any:
        return await self.session.call_tool(name, arguments)

    def resources(self) -> Any:
        return self.session.list_resources()

    def read_text(self, uri: str) -> Any:
        return self.session.read_resource(AnyUrl(uri))

    read_bytes = read_template = read_missing = read_text

    def prompts(self) -> Any:
        return self.session.list_prompts()

    def prompt(self, name: str, arguments: dict[str, str] | None = None) -> Any:
        return self.session.get_prompt(name, arguments)

    prompt_with_resource = prompt_missing = prompt


async def sample(context: Any, params: Any) -> Any:
    text = wire.TextContent(type="text", text="green tea")
    return wire.CreateMessageResult(role="assistant", content=text, model="tea-1", stopReason="endTurn")


async def elicit(context: Any, params: Any) -> Any:
    return wire.ElicitResult(action="accept", content={"guests": 2})


@asynccontextmanager
async def connect(kind: str, mode: str, target: list[str]) -> AsyncIterator[Adapter]:
    remote = {"url": target[0], "transport": "sse"} if kind == "sse" else {"url": target[0]}
    server = {"command": target[0], "args": target[1:]} if kind == "stdio" else remote
    config = {"mcpServers": {"compat": server}}
    client = MCPClient(config=config, sampling_callback=sample, elicitation_callback=elicit)
    try:
        yield Session(await client.create_session("compat"))
    finally:
        await client.close_all_sessions()


if __name__ == "__main__":
    run(connect)
