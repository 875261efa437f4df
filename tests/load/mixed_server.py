"""A server whose tools tell whether an answer is right, whether a call ran twice, and what the process occupies.

python mixed_server.py stdio | http | unix PATH | tcp PORT
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from dovetail import Context, Server

server = Server("mixed")
MAX_STREAMS_EACH = 150
"""Fewer than the default, so that a flood of subscriptions from one address exceeds it."""
runs: Counter[str] = Counter()
"""The number of executions by the key that the client has chosen for the call."""


@dataclass
class Number:
    """The form of a question."""

    value: int


class Usage(TypedDict):
    """The resources that the process occupies, and the calls that ran more than once."""

    files: int
    tasks: int
    suspended: int
    """Calls whose client has not answered a question; they expire after ten minutes, and are bounded in number."""
    kilobytes: int
    calls: int
    repeated: int


@server.tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool
async def once(key: str, milliseconds: int) -> str:
    """Count an execution, wait, and return the key."""
    runs[key] += 1
    await asyncio.sleep(milliseconds / 1000)
    return key


@server.tool
def block(key: str, milliseconds: int) -> str:
    """Do the same in a thread."""
    runs[key] += 1
    time.sleep(milliseconds / 1000)
    return key


@server.tool
async def ask(key: str, context: Context) -> int:
    """Ask the user for a number, count the execution of what follows, and return twice the number."""
    answer = await context.elicit(f"A number for {key}", Number)
    if not answer.accepted:
        return -1

    def count() -> int:
        runs[key] += 1
        return runs[key]

    await context.step("count", count)
    return 2 * answer.data.value


@server.tool
async def report(steps: int, context: Context) -> int:
    """Send progress and log messages."""
    for step in range(steps):
        await context.progress(step + 1, steps)
        await context.log.info("step", number=step)
    return steps


@server.tool
async def text(characters: int) -> str:
    """Return a long text."""
    return "x" * characters


@server.resource("numbers://{number}")
async def number(number: str) -> str:
    """The number as text."""
    return number


@server.tool
async def usage() -> Usage:
    """The resources that the process occupies."""
    names = [getattr(task.get_coro(), "__qualname__", "") for task in asyncio.all_tasks()]
    suspended = sum(1 for name in names if name.startswith("SuspendableCall"))
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return Usage(
        files=len(os.listdir("/proc/self/fd")),
        tasks=len(names) - suspended,
        suspended=suspended,
        kilobytes=pages * os.sysconf("SC_PAGE_SIZE") // 1024,
        calls=runs.total(),
        repeated=sum(1 for count in runs.values() if count > 1),
    )


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["http"]:
            server.run("http", port=0, max_streams_each=MAX_STREAMS_EACH)
        case ["unix", path]:
            server.run("unix", path=path)
        case ["tcp", port]:
            server.run("tcp", port=int(port))
        case _:
            server.run()
