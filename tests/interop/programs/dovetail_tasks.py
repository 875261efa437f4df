"""Our server with tasks, for the clients of others: over stdio, or with --http over HTTP."""

import asyncio
import sys
from pathlib import Path
from typing import Any

from dovetail import Context, ProtocolError, Server, ToolError

server = Server("tasks", version="1")
STYLE: dict[str, Any] = {"type": "object", "properties": {"style": {"type": "string"}}, "required": ["style"]}


@server.tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool(task="optional")
async def render(scene: str, ctx: Context) -> dict[str, str]:
    """Render a scene."""
    await ctx.status(f"rendering {scene}")
    return {"movie": scene}


@server.tool(task="required")
async def paint(ctx: Context) -> str:
    """Ask for a style and paint."""
    answer = await ctx.elicit("Which style?", STYLE)
    return f"painted {answer.data['style']}" if answer.accepted else "not painted"


@server.tool(task="optional")
async def refuse() -> str:
    """Fail with words for the model."""
    raise ToolError("Not on a Sunday.")


@server.tool(task="optional")
async def break_down() -> str:
    """End in a JSON-RPC error."""
    raise ProtocolError(4711, "No quota left", {"resets": "tomorrow"})


@server.tool(task="optional")
async def hold() -> str:
    """Run until it is cancelled."""
    await asyncio.Event().wait()
    return "never"


if __name__ == "__main__":
    if "--http" in sys.argv:
        sys.path.insert(0, str(Path(__file__).parents[3]))
        from tests.support.http import announce_and_serve

        announce_and_serve(server.asgi())
    else:
        server.run()
