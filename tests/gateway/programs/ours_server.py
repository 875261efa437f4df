"""Our server for the matrix of the gateway: `ours_server.py [REVISION]`, with every feature, over stdio."""

import asyncio
import sys
from dataclasses import dataclass

from dovetail import (
    Audio,
    BlobContents,
    Context,
    Embedded,
    Image,
    ResourceLink,
    Server,
    Text,
    TextContents,
    ToolError,
)

server = Server("ours", version="1", instructions="Ask away.", revisions=sys.argv[1:] or None)
given_up: list[str] = []


@dataclass
class Point:
    x: int
    y: float


@dataclass
class Who:
    name: str


@server.tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool
async def point(x: int, y: float = 0.5) -> Point:
    return Point(x, y)


@server.tool
async def blocks() -> list[Text | Image | Audio | ResourceLink | Embedded]:
    return [
        Text("words"),
        Image(b"\x89PNG", "image/png"),
        Audio(b"RIFF", "audio/wav"),
        ResourceLink("note://static", "static", description="A note"),
        Embedded(TextContents("note://inside", "inside", mime_type="text/plain")),
        Embedded(BlobContents("note://bytes", b"\x00\x01\x02", mime_type="application/x-bytes")),
    ]


@server.tool
async def fail() -> str:
    raise ToolError("no such luck")


@server.tool
async def count(steps: int, ctx: Context) -> str:
    for step in range(1, steps + 1):
        await ctx.progress(step, steps, f"step {step}")
    return "counted"


@server.tool
async def hang(name: str, ctx: Context) -> str:
    try:
        await ctx.progress(1)
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        given_up.append(name)
        raise
    return "never"


@server.tool
async def hung() -> dict[str, list[str]]:
    return {"given_up": given_up}


@server.tool
async def grow(name: str) -> str:
    """Add a tool; whoever listens is told."""
    server.tool(lambda: name, name=f"grown_{name}")
    return "grown"


@server.tool
async def talk(ctx: Context) -> str:
    await ctx.log.info("told")
    return "done"


@server.tool
async def touch(uri: str) -> str:
    server.notify_resource_updated(uri)
    return "touched"


@server.tool
async def ask_form(ctx: Context) -> str:
    answer = await ctx.elicit("Who?", Who)
    return f"{answer.action} {answer.data.name}"


@server.tool
async def ask_page(ctx: Context) -> str:
    return (await ctx.elicit_url("Sign in", "https://a.example/in")).action


@server.tool
async def ask_model(ctx: Context) -> str:
    return (await ctx.sample("Hello", max_tokens=5)).text


@server.tool
async def ask_roots(ctx: Context) -> str:
    return " ".join(root.uri for root in await ctx.roots())


@server.tool(task="optional")
async def render(scene: str, ctx: Context) -> str:
    await ctx.status(f"rendering {scene}")
    return f"movie of {scene}"


@server.resource("note://static", title="Static", description="A note", mime_type="text/markdown")
def static() -> str:
    return "# note"


@server.resource("note://bytes", mime_type="application/x-bytes")
def blob() -> bytes:
    return b"\x00\x01\x02"


@server.resource("note://{topic}/{page}", title="Page")
def page(topic: str, page: str) -> str:
    return f"{topic}, page {page}"


@server.prompt(title="Review")
def review(code: str, language: str = "python") -> str:
    """Ask for a review."""
    return f"Review this {language}: {code}"


@server.completion("review", "language")
def languages(value: str) -> list[str]:
    return [name for name in ("pascal", "perl", "python") if name.startswith(value)]


if __name__ == "__main__":
    server.run()
