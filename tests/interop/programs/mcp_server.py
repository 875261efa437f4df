"""A server on the high-level class of the official Python SDK, version 2 or 1: whichever it is run with."""

# pyright: reportMissingImports=false
import asyncio
from dataclasses import dataclass

import mcp.types as wire

try:
    from mcp.server.mcpserver import Audio, Context, Image, MCPServer
    from mcp.server.mcpserver.exceptions import ToolError

    server = MCPServer("high", version="1.2.3", instructions="Ask away.", log_level="CRITICAL")
except ImportError:
    from mcp.server.fastmcp import Audio, Context, FastMCP, Image
    from mcp.server.fastmcp.exceptions import ToolError

    server = FastMCP("high", instructions="Ask away.", log_level="CRITICAL")

running: list[str] = []
given_up: list[str] = []


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
            resource=wire.BlobResourceContents(
                uri="note://bytes", blob="AAEC", mimeType="application/x-bytes"
            ),
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


server.run()
