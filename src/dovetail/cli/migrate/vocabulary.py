"""The names of FastMCP and the official SDK, with their counterparts."""

from __future__ import annotations

import re
from collections.abc import Mapping

SERVER_CLASSES = re.compile(r"(fastmcp(\.server(\.server)?)?|mcp\.server(\.fastmcp(\.server)?)?)\.FastMCP\Z")
NEW_SERVER_CLASSES = re.compile(r"mcp\.server(\.mcpserver(\.server)?)?\.MCPServer\Z")
LOW_LEVEL_CLASSES = re.compile(r"mcp\.server(\.lowlevel(\.server)?)?\.Server\Z")
CONTEXT_CLASSES = re.compile(
    r"(fastmcp(\.server(\.context)?)?|mcp\.server\.fastmcp(\.server)?|mcp\.server\.mcpserver(\.context)?)\.Context\Z"
)
MEDIA_CLASSES = re.compile(
    r"(fastmcp(\.utilities\.types)?|mcp\.server\.(fastmcp|mcpserver)(\.utilities\.types)?)\.(Image|Audio)\Z"
)
TOOL_ERRORS = re.compile(r"(fastmcp|mcp\.server\.(fastmcp|mcpserver))\.exceptions\.ToolError\Z")
MESSAGES = re.compile(r"(fastmcp|mcp\.server\.(fastmcp|mcpserver))(\.prompts)?(\.\w+)?\.(User|Assistant)?Message\Z")
PROTOCOL_ERRORS = re.compile(r"(mcp|mcp\.shared\.exceptions|fastmcp\.exceptions)\.(McpError|MCPError)\Z")
STDIO = "mcp.server.stdio.stdio_server"

TYPE_MODULES = ("mcp.types", "mcp_types", "mcp")
TYPES: Mapping[str, str] = {
    "Annotations": "Annotations",
    "AudioContent": "Audio",
    "BlobResourceContents": "BlobContents",
    "CallToolResult": "CallToolResult",
    "Completion": "Completion",
    "CreateMessageResult": "CreateMessageResult",
    "EmbeddedResource": "Embedded",
    "GetPromptResult": "GetPromptResult",
    "Icon": "Icon",
    "ImageContent": "Image",
    "Implementation": "Implementation",
    "Prompt": "Prompt",
    "PromptArgument": "PromptArgument",
    "PromptMessage": "PromptMessage",
    "Resource": "Resource",
    "ResourceLink": "ResourceLink",
    "ResourceTemplate": "ResourceTemplate",
    "Root": "Root",
    "SamplingMessage": "SamplingMessage",
    "TextContent": "Text",
    "TextResourceContents": "TextContents",
    "Tool": "Tool",
    "ToolAnnotations": "ToolAnnotations",
}
"""Types of the protocol; a name that is not here has no counterpart that can be imported."""

ERROR_CODES: Mapping[str, str] = {
    "PARSE_ERROR": "-32700",
    "INVALID_REQUEST": "-32600",
    "METHOD_NOT_FOUND": "-32601",
    "INVALID_PARAMS": "-32602",
    "INTERNAL_ERROR": "-32603",
}

FIELDS: Mapping[str, str] = {
    "_meta": "meta",
    "idempotentHint": "idempotent_hint",
    "destructiveHint": "destructive_hint",
    "inputSchema": "input_schema",
    "isError": "is_error",
    "lastModified": "last_modified",
    "mimeType": "mime_type",
    "openWorldHint": "open_world_hint",
    "outputSchema": "output_schema",
    "readOnlyHint": "read_only_hint",
    "stopReason": "stop_reason",
    "structuredContent": "structured_content",
    "uriTemplate": "uri_template",
    "websiteUrl": "website_url",
    "hasMore": "has_more",
}
"""Fields of types, and attributes of their values."""

HINTS: Mapping[str, str] = {
    "readOnlyHint": "read_only",
    "read_only_hint": "read_only",
    "destructiveHint": "destructive",
    "destructive_hint": "destructive",
    "idempotentHint": "idempotent",
    "idempotent_hint": "idempotent",
    "openWorldHint": "open_world",
    "open_world_hint": "open_world",
    "title": "title",
}
"""Fields of `ToolAnnotations`, with the options of a tool."""

ADVICE: Mapping[str, str] = {
    "fastmcp.Client": "it is dovetail.Client; call_tool is called call, list_tools is called tools, read_resource read",
    "fastmcp.exceptions.NotFoundError": "raise NotFound, from dovetail",
    "fastmcp.exceptions.ResourceError": "raise ProtocolError(code, message), from dovetail",
    "fastmcp.server.dependencies.get_access_token": "a handler has ctx.principal and ctx.scopes",
    "fastmcp.server.dependencies.get_context": "declare a parameter ctx: Context",
    "fastmcp.server.dependencies.get_http_headers": "a handler has ctx.headers",
    "fastmcp.server.dependencies.get_http_request": "a handler has ctx.headers",
    "fastmcp.server.middleware": "middleware is a function here: see `server.use` in docs/servers.md",
    "fastmcp.tools": "register functions with server.tool(function, …)",
    "fastmcp.resources": "register functions with server.resource(uri, …)(function)",
    "fastmcp.prompts": "register functions with server.prompt(function, …)",
    "fastmcp.server.auth": "see docs/authorization.md",
    "mcp.server.auth": "see docs/authorization.md",
    "mcp.server.context": "middleware is a function here: see `server.use` in docs/servers.md",
    "mcp.server.elicitation": "look at .action and .data of the answer of ctx.elicit",
    "mcp.server.lowlevel.NotificationOptions": "the lists always notify of changes; leave it out",
    "mcp.server.lowlevel.helper_types": "return TextContents or BlobContents, from dovetail",
    "mcp.server.sse": 'server.run("http") serves HTTP+SSE too; server.asgi() is the application',
    "mcp.server.streamable_http": "server.asgi() is the application",
    "mcp.server.streamable_http_manager": "server.asgi() is the application, and needs no session manager",
    "mcp.server.stdio": "write await server.run_async()",
    "mcp.server.transport_security": "say allowed_hosts=[…] and allowed_origins=[…] in server.run or server.asgi",
    "mcp.server.session": "ctx.sample, ctx.elicit, ctx.roots and ctx.notify reach the client",
    "mcp.ClientSession": "write async with Client(target) as client",
    "mcp.types": "handlers return values, and the library makes the messages of them",
    "mcp_types": "handlers return values, and the library makes the messages of them",
    "mcp.client": "write async with Client(target) as client",
    "mcp.shared.exceptions": "raise ProtocolError(code, message), from dovetail",
}
"""Instructions for names without a counterpart, by the longest prefix of the full name."""


def counterpart(qualified: str) -> str | None:
    """The name in `dovetail` for a name of another library; None if there is none that means the same."""
    if SERVER_CLASSES.match(qualified) or NEW_SERVER_CLASSES.match(qualified) or LOW_LEVEL_CLASSES.match(qualified):
        return "Server"
    if CONTEXT_CLASSES.match(qualified):
        return "Context"
    if MEDIA_CLASSES.match(qualified) or TOOL_ERRORS.match(qualified):
        return qualified.rpartition(".")[2]
    if qualified.rpartition(".")[2] == "Icon" and qualified.startswith(
        ("mcp.server.fastmcp.", "mcp.server.mcpserver.")
    ):
        return "Icon"
    return protocol_type(qualified)


def protocol_type(qualified: str | None) -> str | None:
    """The name in `dovetail` for a type of the protocol."""
    module, _, name = (qualified or "").rpartition(".")
    return TYPES.get(name) if module in TYPE_MODULES else None


def error_code(qualified: str) -> str | None:
    """The number that a constant of the other libraries stands for."""
    module, _, name = qualified.rpartition(".")
    return ERROR_CODES.get(name) if module in TYPE_MODULES else None


def advice_for(qualified: str) -> str:
    """The instruction for a name without a counterpart."""
    prefix = qualified
    while prefix:
        if prefix in ADVICE:
            return ADVICE[prefix]
        prefix = prefix.rpartition(".")[0]
    return "there is no counterpart; see docs/migrating.md"
