"""A server whose tools record each effect in a file that all replicas share: RECORD names it.

A line has the time, the key that the client chose for the call, the step, the process, and, behind gateways, the port
of the gateway that has sent the call.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path

from dovetail import Context, Server

FOLDER = Path(os.environ["RECORD"])
COUNTER = "counter://value"

revision = os.environ.get("REVISION")
server = Server("recording", version="1.0.0", revisions=[revision] if revision else None)


@dataclass
class Number:
    """The form of a question."""

    value: int


def append(name: str, line: str) -> None:
    """Append a line to a file in one write, so that lines of several processes do not mix."""
    file = os.open(FOLDER / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, line.encode() + b"\n")
    finally:
        os.close(file)


def record(key: str, step: str, ctx: Context) -> None:
    gateway = ctx.headers.get("x-gateway-port")
    append("effects", json.dumps([time.time(), key, step, os.getpid(), None if gateway is None else int(gateway)]))


@server.tool
async def once(key: str, ctx: Context, milliseconds: int = 0) -> str:
    """Record an effect, wait, and return the key."""
    record(key, "body", ctx)
    await asyncio.sleep(milliseconds / 1000)
    return key


@server.tool
async def report(key: str, steps: int, ctx: Context, milliseconds: int = 0) -> str:
    """Record an effect and report numbered progress."""
    record(key, "body", ctx)
    for step in range(1, steps + 1):
        await ctx.progress(step, steps, key)
        await asyncio.sleep(milliseconds / 1000)
    return key


@server.tool
async def hold(key: str, ctx: Context) -> str:
    """Record an effect, report progress, and wait until the file `release-KEY` is there."""
    record(key, "body", ctx)
    await ctx.progress(1, 2, "holding")
    while not (FOLDER / f"release-{key}").exists():
        await asyncio.sleep(0.02)
    await ctx.progress(2, 2, "released")
    return key


@server.tool
async def ask(key: str, ctx: Context) -> str:
    """Ask the user twice, with an effect before, between and after, each in a step."""
    await ctx.step("before", lambda: record(key, "before", ctx))
    first = await ctx.elicit(f"A number for {key}", Number)
    await ctx.step("between", lambda: record(key, "between", ctx))
    second = await ctx.elicit(f"Another number for {key}", Number)
    await ctx.step("after", lambda: record(key, "after", ctx))
    return f"{key} {first.data.value + second.data.value}" if first.accepted and second.accepted else "declined"


@server.tool
async def sample(key: str, ctx: Context) -> str:
    """Ask the client's model, with an effect before and after."""
    await ctx.step("before", lambda: record(key, "before", ctx))
    answer = await ctx.sample(f"Say {key}", max_tokens=10)
    await ctx.step("after", lambda: record(key, "after", ctx))
    return f"{key} {answer.text}"


@server.tool
async def change() -> int:
    """Increase the counter, and tell its subscribers."""
    append("counter", json.dumps([time.time(), os.getpid()]))
    server.notify_resource_updated(COUNTER)
    return count()


@server.tool(read_only=True)
async def process() -> int:
    """The process that serves this call."""
    return os.getpid()


@server.tool
async def grow(name: str) -> int:
    """Add a tool to this replica."""
    server.tool(lambda: name, name=name)
    return os.getpid()


@server.resource(COUNTER)
async def counter() -> str:
    """The value of the counter."""
    return str(count())


def count() -> int:
    file = FOLDER / "counter"
    return file.read_bytes().count(b"\n") if file.exists() else 0
