"""A server with one of everything that a command can meet."""

import asyncio
import contextlib
import itertools
import os
import struct
import zlib
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from dovetail import Context, Image, Param, ResourceLink, Server, ToolError


@contextlib.asynccontextmanager
async def busy(server: Server) -> AsyncGenerator[None]:
    """Where a test wants changes, let them come by themselves."""
    task = asyncio.create_task(work()) if "DESK_BUSY" in os.environ else None
    yield
    if task is not None:
        task.cancel()


async def work() -> None:
    for number in itertools.count():
        await asyncio.sleep(0.1)
        server.tool(lambda: "new", name=f"tool{number}")
        server.notify_resource_updated("desk://note")


server = Server("desk", version="2.0.0", title="The Desk", instructions="Knock first.", lifespan=busy)

NOTES = Path(os.environ.get("DESK_NOTES", os.devnull))
"""Where tools write down what happened to them, for a test to read."""


@dataclass
class Trip:
    name: Annotated[str, Param(title="Your name", min_length=2)]
    nights: Annotated[int, Param(description="How long you stay", ge=1, le=30)] = 2
    price: float = 9.5
    breakfast: bool = True
    room: Literal["single", "double"] = "single"
    extras: list[Literal["bike", "boat"]] | None = None
    remark: str | None = None


@dataclass
class Confirm:
    sure: bool


@server.tool
def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


@server.tool
def echo(
    text: str = "",
    number: float | None = None,
    flag: bool = False,
    tags: list[str] | None = None,
    counts: list[int] | None = None,
    extra: dict[str, int] | None = None,
) -> dict[str, object]:
    """Give back what came."""
    return {"text": text, "number": number, "flag": flag, "tags": tags, "counts": counts, "extra": extra}


@server.tool
def rows() -> list[dict[str, object]]:
    """Give a table."""
    return [{"city": "Lima", "high": 21.5}, {"city": "Oslo", "high": None}]


@server.tool
def fail() -> str:
    """Fail."""
    raise ToolError("Out of ink.")


@server.tool
def say(text: str) -> str:
    """Say something."""
    return text


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


@server.tool
def picture() -> list[Image | ResourceLink]:
    """Give a picture of one pixel, and a link."""
    header = _chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0))
    png = b"\x89PNG\r\n\x1a\n" + header + _chunk(b"IDAT", zlib.compress(b"\0\0")) + _chunk(b"IEND", b"")
    return [Image(png, "image/png"), ResourceLink("desk://note", "note")]


@server.tool
async def count(to: int, ctx: Context, pause: float = 0.0) -> str:
    """Count, and tell how far."""
    for step in range(1, to + 1):
        await ctx.progress(step, to, f"step {step}")
        await asyncio.sleep(pause)
    return "counted"


def note_down(text: str) -> None:
    NOTES.write_text(text)


@server.tool
async def sleep(ctx: Context) -> str:
    """Sleep until somebody cancels."""
    note_down("asleep")
    try:
        await ctx.progress(1, 10, "sleeping")
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        note_down("cancelled")
        raise
    return "awake"


@server.tool
async def book(ctx: Context) -> str:
    """Book a trip."""
    answer = await ctx.elicit("Where do we send the bill?", Trip)
    if not answer.accepted:
        return f"{answer.action}, then"
    trip = answer.data
    sure = await ctx.elicit(f"{trip.nights} nights for {trip.name}?", Confirm)
    return f"{trip} {sure.data.sure if sure.accepted else sure.action}"


@server.tool
async def visit(ctx: Context) -> str:
    """Send the person to a page."""
    answer = await ctx.elicit_url("Please sign in.", "https://example.com/sign-in?x=1")
    return str(answer.action)


@server.tool
async def think(ctx: Context) -> str:
    """Ask a model."""
    reply = await ctx.sample("What is 6 times 7?", max_tokens=10)
    return f"it said {reply.text}"


@server.tool
async def mutter(ctx: Context) -> str:
    """Log on two levels."""
    await ctx.log.debug("quietly")
    await ctx.log.warning("running out", ink=3)
    return "said"


@server.tool
async def where(ctx: Context) -> list[str]:
    """Name the roots."""
    return [root.uri for root in await ctx.roots()]


@server.resource("desk://note", mime_type="text/plain")
def note() -> str:
    """A note on the desk."""
    return "Back at nine.\n"


@server.resource("desk://stamp", mime_type="application/octet-stream")
def stamp() -> bytes:
    """A stamp."""
    return b"\x00\x01\xff"


@server.resource("desk://drawer/{number}")
def drawer(number: str) -> str:
    """What is in a drawer."""
    return f"drawer {number}"


@server.prompt
def letter(to: str, tone: str = "kind") -> str:
    """Write a letter."""
    return f"Write a {tone} letter to {to}."


@server.completion("letter", "tone")
def tones(value: str, context: dict[str, str]) -> list[str]:
    """Tones to write in."""
    known = ["stern"] if context.get("to") == "the bank" else ["kind", "keen", "stern"]
    return [tone for tone in known if tone.startswith(value)]


@server.completion("desk://drawer/{number}", "number")
def numbers(value: str) -> list[str]:
    """Drawers that there are."""
    return [str(number) for number in range(1, 200)]


if __name__ == "__main__":
    server.run()
