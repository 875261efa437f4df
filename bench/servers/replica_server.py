"""The server that is measured with sessions in memory and on Redis; its argument: options of `server.run` as JSON."""

import asyncio
import json
import sys

from serving import free_port

from dovetail import Context, Server

server = Server("bench", version="1.0.0")


@server.tool
async def echo(text: str) -> str:
    """Return the text as it came."""
    return text


@server.tool
async def count(steps: int, pause: float, ctx: Context) -> int:
    """Report progress a number of times, with a pause after each."""
    for step in range(1, steps + 1):
        await ctx.progress(step, steps)
        await asyncio.sleep(pause)
    return steps


print(port := free_port(), flush=True)
server.run("http", port=port, **json.loads(sys.argv[1]))
