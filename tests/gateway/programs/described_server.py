"""A server whose tool has the description that a file had when it was started: `described_server.py FILE`."""

import sys
from pathlib import Path

import msgspec

from dovetail import Context, Server


class Approval(msgspec.Struct):
    yes: bool


text = Path(sys.argv[1]).read_text()
server = Server("described", revisions=["2025-11-25"])


async def pay() -> str:
    return text


server.tool(pay, description=text)


@server.tool
async def hold(ctx: Context) -> str:
    """Ask the user something, and wait for the answer."""
    await ctx.elicit("Go on?", Approval)
    return "held"


@server.resource("file:///a")
def a() -> str:
    return text


if __name__ == "__main__":
    server.run()
