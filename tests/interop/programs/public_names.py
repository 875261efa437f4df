"""Prints the public names of the library that this interpreter has: members of servers and contexts, and options."""

import importlib
import inspect
import json
import logging
import sys

logging.disable(logging.CRITICAL)

SERVERS = (
    "fastmcp.FastMCP",
    "mcp.server.fastmcp.FastMCP",
    "mcp.server.mcpserver.MCPServer",
    "mcp.server.lowlevel.Server",
)
CONTEXTS = ("fastmcp.Context", "mcp.server.fastmcp.Context", "mcp.server.mcpserver.Context")
METHODS = {"tool": "tool", "add_tool": "tool", "resource": "resource", "prompt": "prompt", "mount": "mount"}
OVER_HTTP = ("http_app", "streamable_http_app", "sse_app", "run_http_async", "run_streamable_http_async")


def found(path):
    module, _, name = path.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError):
        return None


def public(thing):
    import pydantic

    return {name for name in dir(thing) if not name.startswith("_")} - set(dir(pydantic.BaseModel))


def options(function):
    parameters = inspect.signature(function).parameters.values()
    return {p.name for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)} - {"self"}


names = {}


def add(kind, some):
    names[kind] = names.get(kind, set()) | some


for server in filter(None, map(found, SERVERS)):
    add("server", public(server("x")))
    add("constructor", options(server.__init__))
    for method, kind in METHODS.items():
        if hasattr(server, method):
            add(kind, options(getattr(server, method)))
    for method in OVER_HTTP:
        if hasattr(server, method):
            add("http", options(getattr(server, method)))
for context in filter(None, map(found, CONTEXTS)):
    add("context", public(context))
    for method in ("elicit", "sample"):
        if hasattr(context, method):
            add(method, options(getattr(context, method)))
json.dump({kind: sorted(some) for kind, some in names.items()}, sys.stdout)
