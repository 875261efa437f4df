"""The MCP servers of the OpenAI Agents SDK."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from agents import Agent, RunContextWrapper
from agents.mcp import MCPServerSse, MCPServerStdio, MCPServerStreamableHttp, MCPUtil
from tour import Adapter, run


class Agents(Adapter):
    def __init__(self, server: Any) -> None:
        self.server = server

    async def tools(self) -> list[str]:
        return [tool.name for tool in await self.server.list_tools()]

    refreshed_tools = tools

    async def call(self, name: str, arguments: dict[str, Any]) -> Any:
        return await self.server.call_tool(name, arguments)

    async def schemas(self) -> None:
        """A function tool can be made of every tool, also with a strict schema."""
        agent = Agent(name="compat")
        for strict in (False, True):
            made = await MCPUtil.get_function_tools(self.server, strict, RunContextWrapper(None), agent)
            bare = [tool.name for tool in made if "properties" not in tool.params_json_schema]
            assert not bare, f"without properties: {bare}"

    def resources(self) -> Any:
        return self.server.list_resources()

    def templates(self) -> Any:
        return self.server.list_resource_templates()

    def read_text(self, uri: str) -> Any:
        return self.server.read_resource(uri)

    read_bytes = read_template = read_missing = read_text

    def prompts(self) -> Any:
        return self.server.list_prompts()

    def prompt(self, name: str, arguments: dict[str, str] | None = None) -> Any:
        return self.server.get_prompt(name, arguments)

    prompt_with_resource = prompt_missing = prompt


@asynccontextmanager
async def connect(kind: str, mode: str, target: list[str]) -> AsyncIterator[Adapter]:
    if kind == "stdio":
        params: Any = {"command": target[0], "args": target[1:]}
        server: Any = MCPServerStdio(params, client_session_timeout_seconds=20)
    else:
        of_kind: Any = MCPServerSse if kind == "sse" else MCPServerStreamableHttp
        server = of_kind({"url": target[0]}, client_session_timeout_seconds=20)
    async with server:
        yield Agents(server)


if __name__ == "__main__":
    run(connect)
