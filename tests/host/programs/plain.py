"""A well-behaved server: `plain.py [seconds before it serves]`."""

import asyncio
import os
import sys
import time

from dovetail import Context, Server

if len(sys.argv) > 1:
    time.sleep(float(sys.argv[1]))

server = Server("plain", version="1.0", instructions="Ask for a city.")


@server.tool(read_only=True)
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool
def echo(text: str) -> str:
    """Say it again."""
    return text


@server.tool
def environment(name: str) -> str:
    """What a variable holds."""
    return os.environ.get(name, "")


@server.tool
async def wait(seconds: float, ctx: Context) -> str:
    """Wait for a while."""
    await ctx.progress(1, 2, "waiting")
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        print("the wait was cancelled", file=sys.stderr, flush=True)
        raise
    return "waited"


@server.tool
def leave() -> str:
    """End the process."""
    os._exit(3)


@server.tool
def grow() -> str:
    """Have one more tool."""
    server.tool(lambda: "grown", name="grown")
    return "grown"


@server.resource("note://one")
def note() -> str:
    """A note."""
    return "noted"


@server.resource("note://{name}/of")
def notes(name: str) -> str:
    """A note of somebody."""
    return name


@server.tool
def touch() -> str:
    """Change the note."""
    server.notify_resource_updated("note://one")
    return "touched"


@server.prompt
def review(code: str) -> str:
    """Review some code."""
    return f"Review {code}"


@server.completion("review", "code")
def codes(value: str, context: dict[str, str]) -> list[str]:
    """Codes that begin so."""
    return [f"{value}1", f"{value}2"]


if __name__ == "__main__":
    server.run()
