"""A server of the handshake era that keeps state in its process: `keeping_server.py [REVISION]`, over stdio."""

import asyncio
import os
import sys

from dovetail import Context, Server

server = Server("keeping", version="1", revisions=sys.argv[1:] or ["2025-11-25"])
kept: list[str] = []


@server.tool
async def keep(what: str) -> list[str]:
    """Keep something; everything that was kept."""
    kept.append(what)
    server.notify_resource_updated("kept://all")
    return kept


@server.tool
async def touch(name: str) -> None:
    """Change something below the resource that has everything."""
    server.notify_resource_updated(f"kept://all/{name}")


@server.tool
async def process() -> int:
    """The id of the process."""
    return os.getpid()


@server.tool
async def ask(ctx: Context) -> str:
    """Ask the user for something, and keep it."""
    answer = await ctx.elicit("What?", str)
    kept.append(f"{answer.action} {answer.data}")
    return kept[-1]


@server.tool(task="optional")
async def later(what: str) -> list[str]:
    """Keep something, as a task."""
    kept.append(what)
    return kept


@server.tool
async def report(ctx: Context) -> str:
    """Report progress and log."""
    for number in range(1, 4):
        await ctx.progress(number, 3)
    await ctx.log.warning("reported")
    return "done"


@server.tool
async def wait(ctx: Context) -> str:
    """Wait until the call is cancelled."""
    await ctx.progress(1)
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        kept.append("cancelled")
        raise
    return "never"


@server.tool
async def roots(ctx: Context) -> list[str]:
    """The roots of the client."""
    return [str(root.uri) for root in await ctx.roots()]


@server.resource("kept://all")
def everything() -> str:
    return " ".join(kept)


@server.prompt
async def recall(start: str) -> str:
    """What was kept."""
    return " ".join([start, *kept])


@server.completion("recall", "start")
async def starts(value: str, context: dict[str, str]) -> list[str]:
    return [one for one in kept if one.startswith(value)]


server.run()
