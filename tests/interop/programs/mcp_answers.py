"""The official client, Python SDK version 2, answering: `mcp_answers.py MODE COMMAND...` prints what it got."""

# pyright: reportMissingImports=false
import asyncio
import json
import sys
import warnings
from typing import Any

import mcp.types as wire
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_client import target

warnings.simplefilter("ignore")
asked: list[str] = []
ANSWERS: dict[str, Any] = {
    "What will it be?": {"name": "Ann", "amount": 2, "size": "small", "colour": "#0f0"},
    "First?": {"value": 4},
    "8?": {"value": 5},
    "Yes?": {"value": True},
    "Sure?": {"value": True},
    "Who?": {"value": "Ann"},
    "Say?": {"value": "blue"},
}


async def elicit(context: Any, params: Any) -> wire.ElicitResult:
    asked.append(params.message)
    return wire.ElicitResult(action="accept", content=ANSWERS.get(params.message))


async def sample(context: Any, params: Any) -> wire.CreateMessageResult:
    text = f"{len(params.messages)} messages, {params.system_prompt}"
    return wire.CreateMessageResult(role="assistant", content=wire.TextContent(type="text", text=text), model="m")


async def roots(context: Any) -> wire.ListRootsResult:
    return wire.ListRootsResult(roots=[wire.Root(uri="file:///srv", name="srv")])


async def main(mode: str, command: list[str]) -> dict[str, Any]:
    answers = {"elicitation_callback": elicit, "sampling_callback": sample, "list_roots_callback": roots}
    got: dict[str, Any] = {}
    async with Client(target(command), mode=mode, **answers) as client:
        for tool in ("order", "chain", "together", "sample", "roots", "by_hand", "page"):
            result = await client.call_tool(tool, {})
            got[tool] = {"error": result.is_error, "text": [block.text for block in result.content]}
        try:
            result = await client.call_tool("behind_page", {"user": "ann"})
            got["behind_page"] = {"text": [block.text for block in result.content]}
        except MCPError as problem:
            got["behind_page"] = {"code": problem.error.code, "data": problem.error.data}
        prompt = await client.get_prompt("greet", {})
        got["greet"] = prompt.messages[0].content.text
        got["note"] = (await client.read_resource("note://sea")).contents[0].text
        got["revision"] = client.protocol_version
    return {**got, "asked": asked}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(sys.argv[1], sys.argv[2:]))))
