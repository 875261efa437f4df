"""Our server for the clients of others: `dovetail_server.py [REVISION...]`, all of them if none is named.

With `--http` over HTTP, and then it prints its address first; `--port` names the port, `--store` a SQLite
file; `--json` answers with one JSON value only, `--stateless` keeps no sessions.
"""

import argparse
import asyncio
from dataclasses import dataclass
from typing import Annotated, Literal

from dovetail import (
    Audio,
    BlobContents,
    Context,
    Embedded,
    Extension,
    Icon,
    Image,
    Param,
    PromptMessage,
    ResourceLink,
    Server,
    Text,
    TextContents,
    ToolError,
)

parser = argparse.ArgumentParser()
parser.add_argument("revisions", nargs="*")
parser.add_argument("--http", action="store_true")
parser.add_argument("--port", type=int, default=0)
parser.add_argument("--store")
parser.add_argument("--json", action="store_true")
parser.add_argument("--stateless", action="store_true")
given = parser.parse_args()

server = Server(
    "joint",
    version="3.2.1",
    title="Joint",
    instructions="Ask away.",
    page_size=6,
    icons=[Icon("https://x.test/icon.png", mime_type="image/png")],
    extensions=[Extension(id="x.test/colours", settings={"shades": 3})],
    experimental={"x.test/try": {}},
    revisions=given.revisions or None,
)
running: list[str] = []
given_up: list[str] = []
go_on = asyncio.Event()


@dataclass
class Point:
    x: int
    y: float


@server.tool(title="Add", read_only=True, icons=[Icon("https://x.test/add.png")], meta={"x.test/order": 1})
async def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: The first.
        b: The second.
    """
    return a + b


@server.tool
def point(x: int, y: float = 0.5) -> Point:
    return Point(x, y)


@server.tool
def numbers(count: Annotated[int, Param(le=100)]) -> list[int]:
    return list(range(count))


@server.tool
def nothing() -> None:
    return None


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
def crash() -> str:
    raise ZeroDivisionError("division by zero")


@server.tool
async def count(steps: int, ctx: Context) -> str:
    for step in range(1, steps + 1):
        await ctx.progress(step, steps, f"step {step}")
    return "counted"


@server.tool
async def hang(name: str, ctx: Context) -> str:
    running.append(name)
    try:
        await ctx.progress(1)
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        given_up.append(name)
        raise
    finally:
        running.remove(name)
    return "never"


@server.tool
async def hung() -> dict[str, list[str]]:
    return {"running": running, "given_up": given_up}


@server.tool
async def whoami(ctx: Context) -> dict[str, str | None]:
    return {"client": ctx.client and ctx.client.name, "revision": ctx.revision}


@server.tool(name="colour", concurrency=1, timeout=30)
def colour(name: Literal["red", "green"], shade: str | None = None) -> str:
    return f"{shade or 'plain'} {name}"


@server.tool
async def grow(name: str) -> str:
    """Add a tool, a resource and a prompt; whoever listens is told."""
    server.tool(lambda: name, name=f"grown_{name}")
    server.resource(f"grown://{name}", name=name)(lambda: name)
    server.prompt(name=f"grown_{name}")(lambda: name)
    return "grown"


@server.tool
async def talk(ctx: Context) -> str:
    await ctx.log.info("told")
    return "done"


@server.tool
def touch(uri: str) -> None:
    server.notify_resource_updated(uri)


@server.tool
async def pause(ctx: Context) -> str:
    """Wait in the middle until `release` is called."""
    await ctx.progress(1, 2, "before")
    await go_on.wait()
    go_on.clear()
    await ctx.progress(2, 2, "after")
    return "rested"


@server.tool
def release() -> None:
    go_on.set()


@server.resource("note://static", title="Static", description="A note", mime_type="text/markdown", size=6)
def static() -> str:
    return "# note"


@server.resource("note://bytes", mime_type="application/x-bytes")
def blob() -> bytes:
    return b"\x00\x01\x02"


@server.resource("note://{topic}/{page}", title="Page")
def page(topic: str, page: int) -> str:
    return f"{topic}, page {page}"


@server.prompt(title="Review")
def review(code: str, language: str = "python") -> str:
    """Ask for a review.

    Args:
        code: What to review.
    """
    return f"Review this {language}: {code}"


@server.completion("review", "language")
def languages(value: str) -> list[str]:
    return [name for name in ("pascal", "perl", "python") if name.startswith(value)]


@server.prompt
def chat() -> list[PromptMessage]:
    return [
        PromptMessage("user", Embedded(TextContents("note://static", "# note"))),
        PromptMessage("assistant", Text("Noted.")),
    ]


if __name__ == "__main__":
    if given.http:
        from tests.support.http import announce_and_serve

        app = server.asgi(store=given.store, json_response=given.json, sessions=not given.stateless)
        announce_and_serve(app, given.port)
    else:
        server.run()
