"""The server whose tasks are measured; its argument: options of `server.run` as JSON."""

import json
import sys

from serving import free_port

from dovetail import Context, Server

server = Server("bench", version="1.0.0")


@server.tool(task="required")
async def quick() -> str:
    """Return at once."""
    return "done"


@server.tool(task="required")
async def ask(ctx: Context) -> str:
    """Wait for an answer."""
    return (await ctx.elicit("Go on?")).action


print(port := free_port(), flush=True)
server.run("http", port=port, **json.loads(sys.argv[1]))
