"""A server with everything: each feature once, to be driven over any transport on any revision.

`build()` makes one for use in memory; `python tests/matrix/everything.py` serves it over stdio.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import enum
import os
from collections import defaultdict
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict

from dovetail import (
    Annotations,
    Audio,
    BlobContents,
    CallToolResult,
    Context,
    Embedded,
    Extension,
    Icon,
    Image,
    Param,
    PromptMessage,
    ProtocolError,
    ResourceLink,
    Server,
    Text,
    TextContents,
    ToolError,
)

if TYPE_CHECKING:
    from tests.support.replica_group import ReplicaGroup

PAGE_SIZE = 7
PIXEL = b"\x89PNG\r\n\x1a\n\x00"
SOUND = b"RIFF\x00\x00WAVE"
ICON = Icon("https://example.com/icon.png", mime_type="image/png", sizes=["48x48"], theme="light")
NOTES = "com.example/notes"
EXPERIMENTAL = {"com.example/sketch": {"depth": 2}}
APPLICATION_ERROR = 4711

DRAFT_07_INPUT = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "properties": {"pair": {"type": "array", "items": [{"type": "string"}, {"type": "integer"}]}},
    "required": ["pair"],
}
HAND_OUTPUT = {"type": "object", "properties": {"swapped": {"type": "array"}}, "required": ["swapped"]}


@dataclass
class Point:
    """A point of the plane."""

    x: int
    y: float


class Colour(enum.Enum):
    """Two colours."""

    RED = "red"
    BLUE = "blue"


class Shape(TypedDict):
    """A shape with its corners."""

    corners: list[Point]
    colour: Colour
    label: str | None


class Bench:
    """What the handlers of one server share: events by name, which tests wait for instead of sleeping."""

    def __init__(self) -> None:
        self._events: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self.notes: list[str] = []
        self.parallel = 0

    def mark(self, name: str) -> None:
        self._events[name].set()

    def marked(self, name: str) -> bool:
        return self._events[name].is_set()

    async def wait(self, name: str) -> None:
        await self._events[name].wait()


def build(
    group: ReplicaGroup | None = None, *, revisions: list[str] | None = None, page_size: int = PAGE_SIZE
) -> Server:
    """Make a server of its own, or one more replica of a group."""
    bench = Bench() if group is None else group.shared("bench", Bench)
    replicas: list[Server] = [] if group is None else group.servers

    @contextlib.asynccontextmanager
    async def lifespan(server: Server) -> AsyncGenerator[str]:
        bench.mark("lifespan entered")
        yield f"alive for {server.info.name}"

    server = Server(
        "everything",
        version="1.2.3",
        title="Everything",
        description="Has one of each.",
        website_url="https://example.com",
        icons=[ICON],
        instructions="Use what you need.",
        lifespan=lifespan,
        extensions=[notes_extension(bench)],
        experimental=EXPERIMENTAL,
        revisions=revisions,
        page_size=page_size,
    )
    add_structured_tools(server)
    add_content_tools(server)
    add_failing_tools(server)
    add_running_tools(server, bench)
    add_asking_tools(server)
    add_changing_tools(server, replicas)
    add_resources(server)
    add_prompts(server)
    return server


def notes_extension(bench: Bench) -> Extension:
    """An extension with requests, a notification and a result type."""

    async def add(params: dict[str, Any], ctx: Context) -> dict[str, Any]:
        bench.notes.append(params["text"])
        ctx.notify("notifications/notes/added", {"text": params["text"]})
        return {"count": len(bench.notes)}

    async def review(params: dict[str, Any], ctx: Context) -> dict[str, Any]:
        return {"resultType": "note", "text": bench.notes[-1]}

    return Extension(
        id=NOTES,
        settings={"limit": 10},
        requests={"notes/add": add, "notes/review": review},
        notifications={"notifications/notes/touched": lambda params: bench.mark(f"touched {params['text']}")},
        result_types=frozenset({"note"}),
    )


def add_structured_tools(server: Server) -> None:
    """Tools whose results are data: objects, and values that are none."""

    @server.tool
    async def add(a: int, b: int) -> int:
        """Add two numbers.

        Args:
            a: the first
            b: the second
        """
        return a + b

    @server.tool
    def greet(name: str, *, polite: bool = False) -> str:
        """Greet somebody, from a plain function."""
        return f"Good day, {name}" if polite else f"Hi {name}"

    @server.tool
    def shift(point: Point, by: int = 1) -> Point:
        """Move a point."""
        return Point(point.x + by, point.y + by)

    @server.tool
    async def draw(corners: list[Point], colour: Colour, style: Literal["thin", "thick"] = "thin") -> Shape:
        """Make a shape."""
        return {"corners": corners, "colour": colour, "label": None if style == "thin" else style}

    @server.tool
    async def path(steps: list[Point]) -> list[Point]:
        """Give back a list of objects: an output schema with references that is not of an object."""
        return steps

    @server.tool
    async def nothing() -> None:
        """Return nothing."""

    @server.tool(input_schema=DRAFT_07_INPUT, output_schema=HAND_OUTPUT)
    async def by_hand(arguments: dict[str, Any]) -> dict[str, Any]:
        """Take and give what schemas written by hand say."""
        return {"swapped": arguments["pair"][::-1]}


def add_content_tools(server: Server) -> None:
    """Tools whose results are content, and one with everything that can be said about a tool."""

    @server.tool
    async def contents() -> list[Text | Image | Audio | ResourceLink | Embedded]:
        """Return one block of each kind."""
        marks = Annotations(audience=["user"], priority=0.5, last_modified="2025-01-12T15:00:58Z")
        return [
            Text("words", marks, meta={"com.example/k": 1}),
            Image(PIXEL, "image/png", marks),
            Audio(SOUND, "audio/wav", marks),
            ResourceLink("text://hello", "hello", title="Hello", description="A greeting", icons=[ICON]),
            Embedded(TextContents("text://hello", "Hello!", "text/plain"), marks),
            Embedded(BlobContents("blob://pixel", PIXEL, "image/png")),
        ]

    @server.tool
    async def whole_result() -> CallToolResult:
        """Return a result with metadata and with fields of its own."""
        block = Text("as it is", extra={"vendorMark": [1]})
        return CallToolResult([block], meta={"com.example/k": "v"}, extra={"vendorField": {"deep": True}})

    @server.tool(
        title="Forecast",
        read_only=True,
        destructive=False,
        idempotent=True,
        open_world=True,
        icons=[ICON],
        meta={"com.example/tier": "gold"},
    )
    async def forecast(
        city: Annotated[str, Param("City or code", header="City", max_length=80)],
        days: Annotated[int, Param("How many", ge=1, le=14)] = 3,
    ) -> str:
        """Tell the weather."""
        return f"{city}: {days} days of sun"


def add_failing_tools(server: Server) -> None:
    """Tools that go wrong, each in its own way."""

    @server.tool
    async def refuse() -> str:
        """Fail with words for the model."""
        raise ToolError("Not on a Sunday.")

    @server.tool
    def crash() -> str:
        """Raise what nobody expected."""
        raise RuntimeError("the engine is on fire")

    @server.tool
    async def leave() -> str:
        """Try to end the process."""
        raise SystemExit(3)

    @server.tool
    async def lie() -> int:
        """Return something else than promised."""
        return "three"  # type: ignore[return-value]

    @server.tool
    async def protocol_error() -> str:
        """Answer with an error of the application's own."""
        raise ProtocolError(APPLICATION_ERROR, "No quota left", {"resets": "tomorrow"})

    @server.tool(timeout=0.05)
    async def too_slow() -> str:
        """Never come to an end within its time."""
        await asyncio.Event().wait()
        return "late"


def add_running_tools(server: Server, bench: Bench) -> None:
    """Tools that take their time, and tools to watch them by."""

    @server.tool
    async def happened(event: str) -> str:
        """Wait until something has happened."""
        await bench.wait(event)
        return event

    @server.tool
    async def has_happened(event: str) -> bool:
        """Tell at once whether something has happened."""
        return bench.marked(event)

    @server.tool
    async def let(event: str) -> None:
        """Make something happen."""
        bench.mark(event)

    @server.tool
    async def hold(key: str, ctx: Context) -> str:
        """Run until cancelled, or until `release <key>` happens; its end is an event too."""
        bench.mark(f"started {key}")
        try:
            await bench.wait(f"release {key}")
        except asyncio.CancelledError:
            bench.mark(f"stopped {key}")
            await ctx.progress(99, message="too late")
            raise
        return key

    server.tool(hold, name="hold_alone", concurrency=1)

    @server.tool
    async def count(steps: int, ctx: Context) -> int:
        """Report each step with a message, and one step backwards that nobody must hear of."""
        for step in range(1, steps + 1):
            await ctx.progress(step, steps, f"step {step}")
            await ctx.progress(step - 0.5, steps, "backwards")
        return steps

    @server.tool
    async def tick(pause: float, times: int, ctx: Context) -> int:
        """Report progress at intervals."""
        for step in range(1, times + 1):
            await ctx.progress(step)
            await asyncio.sleep(pause)
        return times

    @server.tool
    async def who(ctx: Context) -> dict[str, Any]:
        """Tell what a handler knows about its request."""
        return {
            "revision": ctx.revision,
            "client": ctx.client and ctx.client.name,
            "id": ctx.request_id,
            "extensions": ctx.client_capabilities.extensions,
            "experimental": ctx.client_capabilities.experimental,
            "lifespan": ctx.lifespan,
            "meta": ctx.meta,
        }


def add_asking_tools(server: Server) -> None:
    """Tools that ask the client, where the revision lets them."""

    @server.tool
    async def ask(method: str, ctx: Context, times: int = 1, timeout_seconds: float = 20) -> list[Any]:
        """Send the client some requests at once and return the answers."""
        asking = [ctx.request(method, {"number": n}, timeout=timeout_seconds) for n in range(times)]
        return await asyncio.gather(*asking)

    @server.tool
    async def ping_back(ctx: Context) -> dict[str, Any]:
        """Ping the client."""
        return await ctx.request("ping")

    @server.tool
    async def ask_with_progress(method: str, ctx: Context) -> list[list[Any]]:
        """Ask the client and return the progress that it reported."""
        heard: list[list[Any]] = []
        await ctx.request(method, progress=lambda *said: heard.append(list(said)))
        return heard


def add_changing_tools(server: Server, replicas: list[Server]) -> None:
    """Tools that change what the server has, and all its replicas."""
    replicas.append(server)

    @server.tool
    async def offer(kind: Literal["tool", "resource", "template", "prompt"], name: str) -> None:
        """Add something."""
        for each in replicas:
            if kind == "tool":
                each.tool(lambda: name, name=name)
            elif kind == "resource":
                each.resource(f"new://{name}", name=name)(lambda: name)
            elif kind == "template":
                each.resource(f"new://{name}/{{part}}", name=name)(lambda part: part)
            else:
                each.prompt(name=name)(lambda: name)

    @server.tool
    def withdraw(kind: Literal["tool", "resource", "template", "prompt"], name: str) -> None:
        """Remove something, from a worker thread."""
        for each in replicas:
            if kind == "tool":
                each.remove_tool(name)
            elif kind == "prompt":
                each.remove_prompt(name)
            else:
                each.remove_resource(f"new://{name}" if kind == "resource" else f"new://{name}/{{part}}")


def add_resources(server: Server) -> None:
    """Resources of text, bytes and JSON, and templates."""

    @server.resource(
        "text://hello",
        title="Hello",
        mime_type="text/plain",
        size=6,
        icons=[ICON],
        annotations=Annotations(audience=["assistant"], priority=1),
        meta={"com.example/k": 1},
    )
    def hello() -> str:
        """Give a greeting."""
        return "Hello!"

    @server.resource("blob://pixel", mime_type="image/png")
    async def pixel() -> bytes:
        """Give an image."""
        return PIXEL

    @server.resource("json://config")
    async def config() -> dict[str, Any]:
        """Give what JSON can hold."""
        return {"debug": True, "levels": [1, 2]}

    @server.resource("folder://all")
    async def everything_in_it() -> list[TextContents | BlobContents]:
        """Give several contents at once."""
        return [
            TextContents("folder://all/a", "A", "text/plain"),
            BlobContents("folder://all/b", PIXEL, "image/png"),
        ]

    @server.resource("crash://now")
    async def crash() -> str:
        """Raise what nobody expected."""
        raise RuntimeError("the shelf is on fire")

    @server.resource("item://{number}", title="Item", mime_type="text/plain", icons=[ICON])
    async def item(number: int, ctx: Context) -> str:
        """Give an item by its number."""
        return f"item {number} on {ctx.revision}"

    @server.resource("repo://{owner}/{path*}")
    def file(owner: str, path: str) -> str:
        """Give a file by its path."""
        return f"{path} of {owner}"

    for number in range(2 * PAGE_SIZE):
        server.resource(f"shelf://{number:02}", name=f"shelf-{number:02}")(lambda: "full")
        server.resource(f"row://{number:02}/{{seat}}", name=f"row-{number:02}")(lambda seat: seat)


def add_prompts(server: Server) -> None:
    """Prompts of one text, of a conversation, and of every kind of content."""

    @server.prompt(title="Review", icons=[ICON], meta={"com.example/k": 1})
    def review(code: str, language: str = "python") -> str:
        """Ask for a review.

        Args:
            code: what to look at
        """
        return f"Review this {language}: {code}"

    @server.prompt
    async def conversation(times: int) -> list[PromptMessage]:
        """Give a conversation."""
        said = [PromptMessage("user", Text("Hello")), PromptMessage("assistant", Text("What is it?"))]
        return said * times

    @server.prompt
    async def gallery() -> list[Any]:
        """Give one block of each kind."""
        return [
            "look",
            Image(PIXEL, "image/png"),
            Audio(SOUND, "audio/wav"),
            ResourceLink("text://hello", "hello"),
            Embedded(TextContents("text://hello", "Hello!", "text/plain")),
        ]

    @server.prompt
    async def crash() -> str:
        """Raise what nobody expected."""
        raise RuntimeError("the pen is on fire")

    for number in range(2 * PAGE_SIZE):
        server.prompt(name=f"note-{number:02}")(lambda: "noted")


def main() -> None:
    """Serve over stdio what the command line asks for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--revisions", nargs="*")
    parser.add_argument("--empty", action="store_true")
    options = parser.parse_args()
    options.revisions = options.revisions or os.environ.get("EVERYTHING_REVISIONS", "").split() or None
    server = Server("empty", revisions=options.revisions) if options.empty else build(revisions=options.revisions)
    server.run()


if __name__ == "__main__":
    main()
