"""A server with tasks of every kind; each keeps what it does in a file of its own, to which it only appends."""

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path

from dovetail import Context, Server

FOLDER = Path(os.environ["LONG_WORK_FOLDER"])

server = Server("long-work")


@dataclass
class Color:
    name: str


def note(name: str, what: str) -> int:
    """Append a line with the process to the file of a task; the number of lines that are the same, with this one."""
    line = f"{what}\n".encode()
    descriptor = os.open(FOLDER / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, line)
    finally:
        os.close(descriptor)
    return (FOLDER / name).read_bytes().split(b"\n").count(line[:-1])


@server.tool(task="required")
async def once(name: str, seconds: float) -> str:
    """Work that must not run twice."""
    note(name, "run")
    await asyncio.sleep(seconds)
    return name


@server.tool(task="required", resume=True)
async def steps(name: str, number: int, seconds: float, ctx: Context) -> str:
    """Work in steps, each of which runs once as soon as its outcome is kept."""
    note(name, "run")
    for index in range(number):
        await ctx.step(f"step {index}", lambda index=index: note(name, f"step {index}"))
        await asyncio.sleep(seconds)
    return name


@server.tool(task="required")
async def ask(name: str, ctx: Context) -> str:
    """Work that waits for an answer."""
    await ctx.step("before", lambda: note(name, "before"))
    answer = await ctx.elicit("Which color?", Color)
    color = answer.data.name if answer.accepted else "none"
    await ctx.step("after", lambda: note(name, f"after {color}"))
    return color


async def _effect(name: str) -> int:
    runs = note(name, "effect")
    if runs == 1:
        await asyncio.sleep(3600)  # has had its effect, and its outcome is not kept
    return runs


@server.tool(task="required", resume=True)
async def unrecorded(name: str, ctx: Context) -> str:
    """A step that stops between its effect and the record of its outcome."""
    return str(await ctx.step("effect", lambda: _effect(name)))


@server.tool(task="required")
async def unrecorded_once(name: str, ctx: Context) -> str:
    """The same where the task may not be resumed."""
    return str(await ctx.step("effect", lambda: _effect(name)))


if __name__ == "__main__":
    server.run()
