"""LangChain's adapters: the tools of a session, called as a model's tool calls."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from langchain_core.utils.function_calling import convert_to_openai_tool
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.prompts import load_mcp_prompt
from langchain_mcp_adapters.resources import load_mcp_resources
from langchain_mcp_adapters.tools import load_mcp_tools
from tour import Adapter, run


class LangChain(Adapter):
    def __init__(self, session: Any, tools: list[Any]) -> None:
        self.session = session
        self.by_name = {tool.name: tool for tool in tools}

    async def tools(self) -> list[str]:
        return list(self.by_name)

    async def refreshed_tools(self) -> list[str]:
        return [tool.name for tool in await load_mcp_tools(self.session)]

    async def call(self, name: str, arguments: dict[str, Any]) -> Any:
        return await self.by_name[name].ainvoke({"type": "tool_call", "name": name, "id": "1", "args": arguments})

    def is_error(self, result: Any) -> bool:
        return result.status == "error"

    async def schemas(self) -> None:
        """Every tool has the form that OpenAI takes: an object with properties."""
        for tool in self.by_name.values():
            parameters = convert_to_openai_tool(tool)["function"]["parameters"]
            assert "properties" in parameters, f"{tool.name} has no properties: {parameters}"

    async def read_text(self, uri: str) -> Any:
        return [blob.data for blob in await load_mcp_resources(self.session, uris=uri)]

    read_bytes = read_template = read_missing = read_text

    def prompt(self, name: str, arguments: dict[str, str] | None = None) -> Any:
        return load_mcp_prompt(self.session, name, arguments=arguments)

    prompt_with_resource = prompt_missing = prompt


@asynccontextmanager
async def connect(kind: str, mode: str, target: list[str]) -> AsyncIterator[Adapter]:
    stdio = {"transport": "stdio", "command": target[0], "args": target[1:]}
    remote = {"transport": "sse" if kind == "sse" else "streamable_http", "url": target[0]}
    client = MultiServerMCPClient({"compat": stdio if kind == "stdio" else remote})
    async with client.session("compat") as session:
        yield LangChain(session, await load_mcp_tools(session))


if __name__ == "__main__":
    run(connect)
