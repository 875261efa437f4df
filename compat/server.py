"""The server that every client of the table meets: 27 tools, 3 resources, 2 templates and 2 prompts.

python compat/server.py                     over stdio
python compat/server.py --port 0            over HTTP, with HTTP+SSE at /sse
"""

import argparse
import asyncio
import base64
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Literal, NotRequired, TypedDict

from pydantic import BaseModel, Field

from dovetail import (
    Audio,
    BlobContents,
    Context,
    Embedded,
    Image,
    Param,
    PromptMessage,
    ResourceLink,
    Server,
    Text,
    TextContents,
    ToolError,
)

DOT = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
)
SILENCE = base64.b64decode("UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=")
ECHO_SECONDS = 60

server = Server("compat", version="1.0.0", title="Compatibility", instructions="Call everything.")
running: list[str] = []
cancelled: list[str] = []


@dataclass
class Point:
    """A point of the plane."""

    x: float
    y: float = 0.5


class Address(BaseModel):
    """An address."""

    street: str
    city: str = Field(default="Lima", description="The city")


class Person(BaseModel):
    """A person with an address."""

    name: str
    age: int = Field(ge=0)
    address: Address | None = None


class Book(TypedDict):
    """A book."""

    title: str
    pages: NotRequired[int]


@dataclass
class Node:
    """A tree."""

    value: int
    children: "list[Node] | None" = None


@dataclass
class Reservation:
    """The form of a reservation."""

    guests: Annotated[int, Param("How many guests", ge=1, le=20)]
    terrace: bool = False


@server.tool(title="Add", read_only=True)
def add(a: Annotated[int, Param("The first number")], b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool
async def greet(name: str = "world") -> str:
    """Greet by name."""
    return f"Hello, {name}!"


@server.tool
def now() -> str:
    """Tell a time; there are no arguments."""
    return "12:00"


@server.tool(idempotent=True)
def forget(key: str) -> None:
    """Forget a key; there is no result."""


@server.tool
def price(amount: Decimal, rate: float = 0.2) -> str:
    """Add a tax to an exact amount."""
    return f"{amount * (1 + Decimal(str(rate))):.2f}"


@server.tool
def points(count: Annotated[int, Param(ge=0, le=100)]) -> list[Point]:
    """Give points of a line."""
    return [Point(float(number)) for number in range(count)]


@server.tool
def person(person: Person) -> Person:
    """Make a person one year older."""
    return person.model_copy(update={"age": person.age + 1})


@server.tool
def book(book: Book) -> Book:
    """Add a page to a book."""
    return {"title": book["title"], "pages": book.get("pages", 0) + 1}


@server.tool
def tree(root: Node) -> int:
    """Add up the values of a tree."""

    def total(node: Node) -> int:
        return node.value + sum(map(total, node.children or []))

    return total(root)


@server.tool
def colour(name: Literal["red", "green"], shade: str | None = None) -> str:
    """Name a colour."""
    return f"{shade or 'plain'} {name}"


@server.tool
def anything(value) -> str:  # noqa: ANN001  # a parameter without a type is the case
    """Take any value."""
    return f"got {value!r}"


@server.tool
def picture() -> Image:
    """Give a picture."""
    return Image(DOT, "image/png")


@server.tool
def sound() -> Audio:
    """Give a sound."""
    return Audio(SILENCE, "audio/wav")


@server.tool
def link() -> ResourceLink:
    """Give a link to a resource."""
    return ResourceLink("note://welcome", "welcome", description="A note")


@server.tool
def embedded() -> Embedded:
    """Give a resource itself."""
    return Embedded(TextContents("note://inside", "embedded text", mime_type="text/plain"))


@server.tool
def mixed() -> list[Text | Image | Embedded]:
    """Give a text, a picture and a resource."""
    return [
        Text("first words"),
        Image(DOT, "image/png"),
        Embedded(BlobContents("note://bytes", b"\x00\x01\x02", mime_type="application/x-bytes")),
    ]


@server.tool
def fail() -> str:
    """Fail with a message for the model."""
    raise ToolError("no such luck")


@server.tool
def crash() -> str:
    """Raise an exception that is not meant for the model."""
    raise ZeroDivisionError("division by zero")


@server.tool
async def count(steps: int, ctx: Context) -> str:
    """Count with progress."""
    for step in range(1, steps + 1):
        await ctx.progress(step, steps, f"step {step}")
    return f"counted to {steps}"


@server.tool
async def talk(ctx: Context) -> str:
    """Send a log message."""
    await ctx.log.info("a log message")
    return "talked"


@server.tool
async def reserve(ctx: Context) -> str:
    """Ask the user for the details of a reservation."""
    answer = await ctx.elicit("How many guests?", Reservation)
    return f"reserved for {answer.data.guests}" if answer.accepted else f"not reserved: {answer.action}"


@server.tool
async def suggest(topic: str, ctx: Context) -> str:
    """Ask the model of the client for a suggestion."""
    reply = await ctx.sample(f"Suggest something about {topic}", max_tokens=50)
    return f"suggested: {reply.text}"


@server.tool
async def show_roots(ctx: Context) -> list[str]:
    """List the roots of the client."""
    return [str(root.uri) for root in await ctx.roots()]


@server.tool
async def wait(name: str, ctx: Context) -> str:
    """Wait until the call is cancelled."""
    running.append(name)
    try:
        await ctx.progress(1)
        await asyncio.sleep(ECHO_SECONDS)
    except asyncio.CancelledError:
        cancelled.append(name)
        raise
    finally:
        running.remove(name)
    return "nobody cancelled"


@server.tool
def status(ctx: Context) -> dict[str, Any]:
    """Tell the client, the revision, and which calls wait."""
    client = ctx.client.name if ctx.client else None
    return {"client": client, "revision": ctx.revision, "running": running, "cancelled": cancelled}


@server.tool
def large(size: int) -> str:
    """Give a text of so many characters."""
    return "x" * size


@server.tool
def grow(name: str) -> str:
    """Add a tool, a resource and a prompt, and tell that the welcome note has changed."""
    server.tool(lambda: f"{name} works", name=f"grown_{name}", description="A tool added at run time.")
    server.resource(f"grown://{name}", name=name)(lambda: name)
    server.prompt(name=f"grown_{name}")(lambda: name)
    server.notify_resource_updated("note://welcome")
    return f"grown_{name}"


@server.resource("note://welcome", title="Welcome", description="A note", mime_type="text/markdown")
def welcome() -> str:
    """Give a text."""
    return "# Welcome"


@server.resource("note://bytes", mime_type="application/x-bytes")
def data() -> bytes:
    """Give bytes."""
    return b"\x00\x01\x02"


@server.resource("note://settings", mime_type="application/json")
def settings() -> dict[str, Any]:
    """Give JSON."""
    return {"volume": 11}


@server.resource("note://{topic}/{page}", title="Page")
def page(topic: str, page: int) -> str:
    """Give a page."""
    return f"{topic}, page {page}"


@server.resource("file:///{path*}")
def file(path: str) -> str:
    """Give a file."""
    return f"content of {path}"


@server.completion("note://{topic}/{page}", "topic")
def topics(value: str) -> list[str]:
    """Suggest topics."""
    return [topic for topic in ("soup", "soap", "salad") if topic.startswith(value)]


@server.prompt(title="Review")
def review(code: str, language: str = "python") -> str:
    """Ask for a review.

    Args:
        code: The code to review.
        language: The language of the code.
    """
    return f"Review this {language}: {code}"


@server.completion("review", "language")
def languages(value: str) -> list[str]:
    """Suggest languages."""
    return [name for name in ("pascal", "perl", "python") if name.startswith(value)]


@server.prompt
def chat() -> list[PromptMessage]:
    """Begin a chat about a resource."""
    return [
        PromptMessage("user", Embedded(TextContents("note://welcome", "# Welcome", mime_type="text/markdown"))),
        PromptMessage("assistant", Text("Noted.")),
    ]


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--port", type=int)
    arguments.add_argument("--without", action="append", default=[], help="a tool to leave out")
    given = arguments.parse_args()
    for name in given.without:
        server.remove_tool(name)
    if given.port is None:
        server.run()
    else:
        server.run("http", port=given.port)
