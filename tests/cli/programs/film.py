"""A server whose tools become tasks; a file lets them go on."""

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path

from dovetail import Context, Server

server = Server("film", version="1.0.0")

GATE = Path(os.environ.get("FILM_GATE", os.devnull))
"""A task that waits for this file ends when it is there."""


@dataclass
class Style:
    style: str


@server.tool(task="optional")
async def render(ctx: Context, scene: str = "harbour") -> str:
    """Render a scene."""
    await ctx.status(f"rendering {scene}")
    while not GATE.exists():
        await asyncio.sleep(0.02)
    return f"{scene} is rendered"


@server.tool(task="required")
async def paint(ctx: Context) -> str:
    """Paint in a style that the user chooses."""
    answer = await ctx.elicit("Which style?", Style)
    return f"painted: {answer.content.style}" if answer.content is not None else f"not painted: {answer.action}"


@server.tool(task="optional")
async def tear(ctx: Context) -> str:
    """Fail."""
    raise ValueError("The film is torn")


@server.tool
async def title() -> str:
    """Return the title, at once."""
    return "The Harbour"


if __name__ == "__main__":
    server.run()
