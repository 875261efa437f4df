"""A server on the low-level class of the official Python SDK: pages, icons, metadata, bad results."""

# pyright: reportMissingImports=false
import anyio
import mcp.types as wire
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.shared.exceptions import MCPError

ANYTHING = {"type": "object"}
NUMBERS = {"type": "array", "items": {"type": "integer"}}
NAMED = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
NAMES = [f"tool_{number}" for number in range(5)]

bus = InMemorySubscriptionBus()


def page(items, params):
    """Two items a page; the cursor is the index of the next one."""
    start = int(params.cursor) if params and params.cursor else 0
    following = str(start + 2) if start + 2 < len(items) else None
    return {"items": items[start : start + 2], "next_cursor": following}


def tools(revision):
    icon = wire.Icon(src="https://x.test/icon.png", mime_type="image/png", sizes=["48x48"])
    listed = [wire.Tool(name=name, input_schema=ANYTHING) for name in NAMES]
    listed[0] = wire.Tool(name="tool_0", title="First", input_schema=ANYTHING, icons=[icon], _meta={"x.test/order": 1})
    listed.append(wire.Tool(name="named", input_schema=ANYTHING, output_schema=NAMED))
    if revision == "2026-07-28":
        listed.append(wire.Tool(name="numbers", input_schema=ANYTHING, output_schema=NUMBERS))
    return listed


async def list_tools(ctx, params):
    got = page(tools(ctx.protocol_version), params)
    return wire.ListToolsResult(tools=got["items"], next_cursor=got["next_cursor"])


async def list_resources(ctx, params):
    uris = [f"low://{number}" for number in range(3)]
    got = page(uris, params)
    found = [
        wire.Resource(uri=uri, name=uri, size=3, annotations=wire.Annotations(audience=["user"], priority=0.5))
        for uri in got["items"]
    ]
    return wire.ListResourcesResult(resources=found, next_cursor=got["next_cursor"])


async def read_resource(ctx, params):
    if params.uri == "low://gone":
        raise MCPError(-32002, "Resource not found", {"uri": params.uri})
    parts = [wire.TextResourceContents(uri=f"{params.uri}/{part}", text=part) for part in ("a", "b")]
    return wire.ReadResourceResult(contents=parts, _meta={"x.test/read": True})


def result(structured, **more):
    return wire.CallToolResult(
        content=[wire.TextContent(type="text", text="see the data")], structured_content=structured, **more
    )


async def call_tool(ctx, params):
    arguments = params.arguments or {}
    if params.name == "named":
        return result({"name": arguments.get("name")}, _meta={"x.test/kept": "yes"})
    if params.name == "numbers":
        return result([1, 2, 3])
    if params.name == "announce":
        await bus.publish(ToolsListChanged())
        if ctx.protocol_version != "2026-07-28":
            await ctx.session.send_tool_list_changed()
        return result({})
    if params.name == "ask":
        question = wire.ElicitRequest(
            params=wire.ElicitRequestFormParams(message="Sure?", requested_schema={"type": "object", "properties": {}})
        )
        return wire.InputRequiredResult(input_requests={"sure": question}, request_state="opaque")
    raise MCPError(-32602, f"Unknown tool: {params.name}", {"known": NAMES})


server = Server(
    "low",
    version="0.9",
    on_list_tools=list_tools,
    on_call_tool=call_tool,
    on_list_resources=list_resources,
    on_read_resource=read_resource,
    on_subscriptions_listen=ListenHandler(bus),
)
server.extensions["x.test/colours"] = {"shades": 3}


async def main():
    options = server.create_initialization_options(NotificationOptions(tools_changed=True), {"x.test/try": {}})
    async with stdio_server() as (read, write):
        await server.run(read, write, options)


anyio.run(main)
