"""Search mode: in place of very many tools, clients get three that search, describe and call the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from dovetail.protocol.errors import INVALID_PARAMS, ProtocolError
from dovetail.text.token_estimate import estimated_tokens
from dovetail.text.tool_search import CALL, DESCRIBE, FINDERS, SEARCH, inner_arguments, search_tools
from dovetail.types.content import Text
from dovetail.types.serialization import dump
from dovetail.types.tools import CallToolResult, Tool

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from .settings import SearchLimits

_SUMMARY = 300

Listed = tuple[str, str, Tool]
"""The name of a tool for clients, its server, and its definition."""


def needs_search(limits: SearchLimits, names: Collection[str], tokens_of: Callable[[str], int]) -> bool:
    """True if a list is too long for a client: it has more tools, or takes more tokens, than the limits say."""
    if limits.tools is not None and len(names) > limits.tools:
        return True
    return limits.tokens is not None and sum(map(tokens_of, names)) > limits.tokens


def definition_tokens(tool: Tool) -> int:
    """About how many tokens the definition of a tool takes."""
    return estimated_tokens(msgspec.json.encode(dump(tool)).decode("utf-8", "replace"))


def finder_tools() -> list[tuple[str, Tool]]:
    """The three tools, by name."""
    return [(tool.name, tool) for tool in FINDERS]


def answer_search(name: str, arguments: dict[str, Any], tools: Sequence[Listed]) -> CallToolResult[Any]:
    """The result of `search_tools` or `describe_tool`."""
    by_name = {shown: (server, tool) for shown, server, tool in tools}
    if name == SEARCH:
        best = search_tools(str(arguments.get("query", "")), [(shown, server, tool) for shown, server, tool in tools])
        found = [{"name": one, "server": by_name[one][0], "description": _summary(by_name[one][1])} for one in best]
        servers = sorted({server for _, server, _ in tools})
        return _json({"found": found} if found else {"found": [], "servers": servers, "hint": "Try other words."})
    wanted = str(arguments.get("name", ""))
    if wanted not in by_name:
        return _error(f"There is no tool {wanted[:100]!r}: find one with {SEARCH}")
    server, tool = by_name[wanted]
    about = {"name": wanted, "server": server, "description": tool.description, "arguments": tool.input_schema}
    return _json(about)


def called_tool(arguments: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The tool that `call_tool` is to call, and its arguments; raises `ProtocolError`."""
    inner = inner_arguments(arguments.get("arguments"))
    if inner is None:
        raise ProtocolError(INVALID_PARAMS, f"{CALL} takes an object as `arguments`")
    return str(arguments.get("name", "")), inner


def is_finder(name: str) -> bool:
    """True for the names of the three tools."""
    return name in (SEARCH, DESCRIBE, CALL)


def _summary(tool: Tool) -> str:
    words = " ".join((tool.description or tool.title or "")[: 4 * _SUMMARY].split())
    return words if len(words) <= _SUMMARY else words[:_SUMMARY] + "…"


def _json(value: dict[str, Any]) -> CallToolResult[Any]:
    return CallToolResult([Text(msgspec.json.encode(value).decode())], structured_content=value)


def _error(text: str) -> CallToolResult[Any]:
    return CallToolResult([Text(text)], is_error=True)
