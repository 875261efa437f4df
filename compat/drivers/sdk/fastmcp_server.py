"""A server with FastMCP 2, 3 or 4, for our client."""

import base64
import sys
from dataclasses import dataclass

from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.utilities.types import Image

DOT = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
)
server = FastMCP("peer")


@dataclass
class Person:
    name: str
    age: int


@server.tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool
def person(name: str) -> Person:
    """Give a person."""
    return Person(name, 36)


@server.tool
def listing() -> list[int]:
    """Give numbers."""
    return [1, 2, 3]


@server.tool
def img() -> Image:
    """Give a picture."""
    return Image(data=DOT, format="png")


@server.tool
def fail() -> str:
    """Fail."""
    raise ToolError("no such luck")


@server.tool
async def ask(ctx: Context) -> str:
    """Ask the user."""
    answer = await ctx.elicit("Your name?", response_type=str)
    return f"{answer.action}"


@server.tool
async def count(ctx: Context) -> str:
    """Count with progress."""
    for step in range(3):
        await ctx.report_progress(step + 1, 3)
    return "counted"


@server.resource("note://welcome")
def welcome() -> str:
    """Give a text."""
    return "Welcome"


@server.resource("note://{topic}")
def note(topic: str) -> str:
    """Give a note."""
    return topic


@server.prompt
def review(code: str = "x") -> str:
    """Ask for a review."""
    return f"Review {code}"


if __name__ == "__main__":
    if len(sys.argv) > 2:
        server.run(transport=sys.argv[1], host="127.0.0.1", port=int(sys.argv[2]))
    else:
        server.run(show_banner=False)
