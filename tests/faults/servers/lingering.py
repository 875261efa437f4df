"""A server whose handlers take their time, and say on stderr what becomes of them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
import time

from dovetail import Context, Server

server = Server("lingering")


def say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


@server.tool
async def echo(text: str) -> str:
    return text


@server.tool
async def which() -> int:
    return os.getpid()


@server.tool
async def linger(seconds: float, ctx: Context) -> str:
    """Tell that it has begun, wait, and clean up."""
    await ctx.progress(1, 2, "begun")
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        say("cancelled")
        raise
    finally:
        say("cleaned up")
    return "done"


@server.tool
async def ask(question: str, ctx: Context) -> str:
    answer = await ctx.elicit(question, str)
    return f"{answer.action}: {answer.content}"


@server.tool
async def hold_the_loop(seconds: float, ctx: Context) -> str:
    await ctx.progress(1, 2, "begun")
    await asyncio.sleep(0.2)
    time.sleep(seconds)
    return "held"


@server.tool
def hold_a_thread(seconds: float) -> str:
    say("begun")
    threading.Event().wait(seconds)
    return "held"


@server.tool
async def refuse_to_stop(ctx: Context) -> str:
    await ctx.progress(1, 2, "begun")
    while True:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()


@server.tool
async def flood(ctx: Context) -> str:
    """Say more than anybody reads."""
    n = 0
    while True:
        n += 1
        await ctx.progress(n, None, "x" * 50_000)


@server.tool
async def large(size: int) -> str:
    return "x" * size


@server.tool
async def leave(code: int = 7) -> str:
    """End the process at once, as a crash would."""
    os._exit(code)


if __name__ == "__main__":
    server.run()
