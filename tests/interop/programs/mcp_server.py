"""A server on the high-level class of the official Python SDK, version 2 or 1: whichever it is run with.

Over stdio; with the argument `http`, `json`, `stateless` or `sse` over HTTP, and then it prints its address first.
"""

# pyright: reportMissingImports=false
import asyncio
import sys
from dataclasses import dataclass

import mcp.types as wire
from mcp.server.streamable_http import EventMessage, EventStore
from starlette.responses import Response

MODES = {"json": {"json_response": True}, "stateless": {"stateless_http": True}}
MODE = MODES.get(sys.argv[-1], {})


class Events(EventStore):
    """What was sent on each stream, for those who come back."""

    def __init__(self) -> None:
        self.kept: list[tuple[str, object]] = []

    async def store_event(self, stream_id: str, message: object) -> str:
        self.kept.append((stream_id, message))
        return str(len(self.kept))

    async def replay_events_after(self, last_event_id: str, send_callback: object) -> str:
        stream = self.kept[int(last_event_id) - 1][0]
        for number, (of, message) in enumerate(list(self.kept), 1):
            if of == stream and number > int(last_event_id) and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream


try:
    from mcp.server.mcpserver import Audio, Context, Image, MCPServer
    from mcp.server.mcpserver.exceptions import ToolError

    server = MCPServer("high", version="1.2.3", instructions="Ask away.", log_level="CRITICAL")
    http = {"event_store": Events(), "retry_interval": 50, **MODE}
except ImportError:
    from mcp.server.fastmcp import Audio, Context, FastMCP, Image
    from mcp.server.fastmcp.exceptions import ToolError

    kept = {"event_store": Events(), "retry_interval": 50, **MODE}
    server = FastMCP("high", instructions="Ask away.", log_level="CRITICAL", **kept)
    http = {}

running: list[str] = []
given_up: list[str] = []
go_on = asyncio.Event()


@dataclass
class Point:
    """A place on the plane."""

    x: int
    y: float


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool(annotations=wire.ToolAnnotations(readOnlyHint=True))
def point(x: int, y: float = 0.5) -> Point:
    return Point(x, y)


@server.tool(structured_output=False)
def blocks() -> list[object]:
    return [
        "words",
        Image(data=b"\x89PNG", format="png"),
        Audio(data=b"RIFF", format="wav"),
        wire.ResourceLink(type="resource_link", uri="note://static", name="static", description="A note"),
        wire.EmbeddedResource(
            type="resource",
            resource=wire.TextResourceContents(uri="note://inside", text="inside", mimeType="text/plain"),
        ),
        wire.EmbeddedResource(
            type="resource",
            resource=wire.BlobResourceContents(uri="note://bytes", blob="AAEC", mimeType="application/x-bytes"),
        ),
    ]


@server.tool()
def fail() -> str:
    raise ToolError("no such luck")


@server.tool()
async def count(steps: int, ctx: Context) -> str:
    for step in range(1, steps + 1):
        await ctx.report_progress(step, steps, f"step {step}")
    return "counted"


@server.tool()
async def hang(name: str, ctx: Context) -> str:
    running.append(name)
    try:
        await ctx.report_progress(1)
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        given_up.append(name)
        raise
    finally:
        running.remove(name)
    return "never"


@server.tool()
def hung() -> dict[str, list[str]]:
    return {"running": running, "given_up": given_up}


@server.tool(structured_output=False)
async def ask_back(ctx: Context) -> str:
    """Ping the client, then ask it for what it never said it could do."""
    await ctx.session.send_ping()
    roots = await ctx.session.list_roots()
    return f"{len(roots.roots)} roots"


@server.tool(structured_output=False)
async def grow(name: str, ctx: Context) -> str:
    """Add a tool, a resource and a prompt, and tell the client in the manner of its era."""
    server.add_tool(lambda: name, name=f"grown_{name}")
    server.resource(f"grown://{name}", name=name)(lambda: name)
    server.prompt(name=f"grown_{name}")(lambda: name)
    if getattr(ctx, "protocol_version", None) == "2026-07-28":
        await ctx.notify_tools_changed()
        await ctx.notify_resources_changed()
        await ctx.notify_prompts_changed()
    else:
        await ctx.session.send_tool_list_changed()
        await ctx.session.send_resource_list_changed()
        await ctx.session.send_prompt_list_changed()
    return "grown"


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


@server.prompt()
def chat() -> list[dict[str, object]]:
    link = {"type": "resource", "resource": {"uri": "note://static", "text": "# note"}}
    return [
        {"role": "user", "content": link},
        {"role": "assistant", "content": {"type": "text", "text": "Noted."}},
    ]


@server.tool(structured_output=False)
async def pause(ctx: Context) -> str:
    """Wait in the middle until `release` is called."""
    await ctx.report_progress(1, 2, "before")
    await go_on.wait()
    go_on.clear()
    await ctx.report_progress(2, 2, "after")
    return "rested"


@server.custom_route("/release", methods=["POST"])
async def release(_: object) -> Response:
    """Not a tool: this SDK tells streams apart by the id of the request, which two sessions may share."""
    go_on.set()
    return Response()


@server.completion()
async def complete(ref: object, argument: wire.CompletionArgument, context: object) -> wire.Completion | None:
    names = [name for name in ("pascal", "perl", "python") if name.startswith(argument.value)]
    return wire.Completion(values=names) if argument.name == "language" else None


@server.tool(structured_output=False)
async def talk(ctx: Context) -> str:
    await ctx.info("told")
    return "done"


@server.tool(structured_output=False)
async def touch(uri: str, ctx: Context) -> str:
    """Tell the client in the manner of its era that a resource has changed."""
    if getattr(ctx, "protocol_version", None) == "2026-07-28":
        await ctx.notify_resource_updated(uri)
    else:
        await ctx.session.send_resource_updated(uri)
    return "touched"


def run() -> None:
    """Serve over what the arguments say."""
    if len(sys.argv) == 1:
        server.run()
        return
    from tests.support.http import announce_and_serve

    announce_and_serve(server.sse_app() if sys.argv[1] == "sse" else server.streamable_http_app(**http))


if __name__ == "__main__":
    run()
