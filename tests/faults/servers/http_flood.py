"""A server over HTTP that floods whoever does not read; the path or URL of a store may be given."""

import asyncio
import os
import sys

from dovetail import Context, Server
from tests.support.http import announce_and_serve

server = Server("flood")
told = 0
ended: list[str] = []


@server.tool
def pid() -> int:
    return os.getpid()


@server.tool
def how_far() -> dict[str, object]:
    return {"told": told, "ended": ended}


@server.tool
async def flood_progress(size: int, count: int, ctx: Context) -> str:
    global told
    told = 0
    try:
        for number in range(count):
            await ctx.progress(number + 1, message="x" * size)
            told = number + 1
    finally:
        ended.append("flood_progress")
    return "done"


@server.tool
async def flood_logs(size: int, count: int, ctx: Context) -> str:
    global told
    told = 0
    try:
        for number in range(count):
            await ctx.log.info("x" * size)
            told = number + 1
    finally:
        ended.append("flood_logs")
    return "done"


@server.tool
async def big(size: int) -> str:
    return "x" * size


@server.tool
async def tell_and_wait(ctx: Context) -> str:
    await ctx.progress(1, message=str(os.getpid()))
    await asyncio.Event().wait()
    return "never"


@server.tool
async def tell_ten_and_wait(ctx: Context) -> str:
    for number in range(10):
        await ctx.progress(number + 1, message=str(os.getpid()))
    await asyncio.Event().wait()
    return "never"


if __name__ == "__main__":
    announce_and_serve(server.asgi(store=sys.argv[1] if len(sys.argv) > 1 else None))
