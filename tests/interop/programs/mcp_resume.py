"""The client of the official Python SDK, version 2 or 1, whose stream breaks: `mcp_resume.py URL`.

It calls `pause`, prints "paused" at the first progress, and in the end what it heard and got.
"""

# pyright: reportMissingImports=false
import asyncio
import json
import sys
import warnings
from typing import Any

from mcp import ClientSession

try:
    from mcp.client.streamable_http import streamable_http_client
except ImportError:
    from mcp.client.streamable_http import streamablehttp_client as streamable_http_client

warnings.simplefilter("ignore")


async def main(url: str) -> dict[str, Any]:
    heard: list[Any] = []

    async def progress(*told: Any) -> None:
        heard.append(told)
        if len(heard) == 1:
            print("paused", flush=True)

    async with (
        streamable_http_client(url) as (read, write, *_),
        ClientSession(read, write) as session,
    ):
        await session.initialize()
        result = await session.call_tool("pause", {}, progress_callback=progress)
        return {"heard": heard, "text": result.content[0].text}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(sys.argv[1]))))
