"""The client of the official Python SDK, version 2, that calls, waits for a line on stdin, and calls again.

`mcp_waiting.py URL` prints what each call gave it and, at the end, of which resource it heard.
"""

# pyright: reportMissingImports=false
import asyncio
import sys
import warnings
from typing import Any

import anyio
import anyio.to_thread
from mcp import Client

warnings.simplefilter("ignore")


async def main(url: str) -> None:
    updated = anyio.Event()

    async def hear(message: Any) -> None:
        if getattr(message, "method", "") == "notifications/resources/updated":
            print(message.params.uri, flush=True)
            updated.set()

    async def add(client: Client) -> None:
        print((await client.call_tool("add", {"a": 1, "b": 2})).content[0].text, flush=True)

    async with Client(url, mode="legacy", message_handler=hear) as client:
        await client.subscribe_resource("note://static")
        await add(client)
        await anyio.to_thread.run_sync(sys.stdin.readline)
        await add(client)
        with anyio.fail_after(20):
            await updated.wait()


asyncio.run(main(sys.argv[1]))
