"""The client of the official Python SDK, version 2, with replicas: `mcp_replicas.py MODE URL` prints what it got.

In a session it also makes a call whose stream breaks: it prints "holding" when the call runs.
"""

# pyright: reportMissingImports=false
import asyncio
import json
import sys
import warnings
from typing import Any

import mcp.types as wire
from mcp import Client

warnings.simplefilter("ignore")
COUNTER = "counter://value"


async def elicit(context: Any, params: Any) -> wire.ElicitResult:
    return wire.ElicitResult(action="accept", content={"value": len(params.message)})


async def updates(client: Client, updated: asyncio.Queue[str], modern: bool) -> list[str]:
    """The changes that are heard of, each after it was made."""
    heard: list[str] = []
    if not modern:
        await client.subscribe_resource(COUNTER)
        for _ in range(4):
            await client.call_tool("change", {})
            heard.append(await updated.get())
        return heard
    async with client.listen(resource_subscriptions=[COUNTER]) as events:
        await client.call_tool("change", {})
        async for event in events:
            heard.append(str(event.uri))
            if len(heard) == 4:
                return heard
            await client.call_tool("change", {})
    return heard


async def main(mode: str, url: str) -> dict[str, Any]:
    updated: asyncio.Queue[str] = asyncio.Queue()
    modern = mode != "legacy"

    async def hear(message: Any) -> None:
        if getattr(message, "method", "") == "notifications/resources/updated":
            updated.put_nowait(str(message.params.uri))

    async def text(tool: str, **arguments: Any) -> str:
        return (await client.call_tool(tool, arguments)).content[0].text

    seen: list[Any] = []

    async def progress(*told: Any) -> None:
        seen.append(told)
        if len(seen) == 1:
            print("holding", flush=True)

    async with Client(url, mode=mode, elicitation_callback=elicit, message_handler=hear) as client:
        got: dict[str, Any] = {"revision": client.protocol_version}
        got["processes"] = [await text("process") for _ in range(6)]
        got["ask"] = [await text("ask", key=f"ask{number}") for number in range(4)]
        got["updates"] = await updates(client, updated, modern)
        if not modern:
            result = await client.call_tool("hold", {"key": "held"}, progress_callback=progress)
            got["hold"] = {"text": result.content[0].text, "heard": seen}
        return got


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(*sys.argv[1:]))))
