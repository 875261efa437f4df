"""A server whose tool takes steps and asks in between; every step and every start of its body is written to a file."""

from __future__ import annotations

import asyncio
import os

from dovetail import Context, Server

server = Server("asking")


def record(text: str) -> str:
    with open(os.environ["RECORD"], "a") as file:
        file.write(f"{text} {os.getpid()}\n")
    return text


@server.tool
async def book(ctx: Context, wait: bool = False) -> str:
    """Take a step, ask, take another one, and wait for the end of the process if told so."""
    record("body")
    await ctx.step("quote", record, "quote")
    days = await ctx.elicit("How long?", int)
    await ctx.step("pay", record, "pay")
    if wait:
        await asyncio.Event().wait()
    return f"{days.data} days"
