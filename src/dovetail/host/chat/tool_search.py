"""The tools that a model is offered: all of them, or three to find and use the others when they are many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import msgspec

from dovetail.host.catalogue import HostTool
from dovetail.host.models.delta_assembly import unreadable
from dovetail.text.sanitize import clean_text
from dovetail.text.tool_search import CALL, DESCRIBE, FINDERS, SEARCH, inner_arguments, search_tools
from dovetail.types.content import ToolUse
from dovetail.types.tools import Tool

from .provenance import offered, within

_LINE = 300


class ServerToolCall(msgspec.Struct, frozen=True):
    """A tool of a server is to be called."""

    tool: HostTool
    arguments: dict[str, Any]


class LocalResult(msgspec.Struct, frozen=True):
    """The host knows the answer itself."""

    text: str
    is_error: bool = False


Meaning: TypeAlias = ServerToolCall | LocalResult


class ToolSearch:
    """The tools that a model is offered in one round, and the meaning of its tool uses."""

    def __init__(self, tools: Sequence[HostTool], *, searching: bool) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._searching = searching
        self.offered = list(FINDERS) if searching else [offered(tool) for tool in tools]

    def meaning(self, use: ToolUse) -> Meaning:
        """The call that a tool use stands for; a mistake of the model gives a result that says what to do."""
        if (written := unreadable(use)) is not None:
            return LocalResult(f"The arguments are no JSON object: {clean_text(written[:200])}", is_error=True)
        if self._searching and use.name in _ANSWERS:
            return _ANSWERS[use.name](self, use.input)
        if self._searching and use.name == CALL:
            return self._inner(use.input)
        return self._call(use.name, use.input)

    def search(self, arguments: dict[str, Any]) -> LocalResult:
        """The tools that words fit best, as JSON, where a server's words cannot pass for anything else."""
        best = search_tools(
            str(arguments.get("query", "")), [(tool, tool.server, tool.tool) for tool in self._tools.values()]
        )
        matches = [{"name": tool.name, "server": tool.server, "description": _summary(tool.tool)} for tool in best]
        if not matches:
            servers = sorted({tool.server for tool in self._tools.values()})
            return LocalResult(_json({"found": [], "servers": servers, "hint": "Try other words, or a server's name."}))
        return LocalResult(_json({"found": matches}))

    def describe(self, arguments: dict[str, Any]) -> LocalResult:
        """All about one tool, as JSON."""
        tool = self._tools.get(str(arguments.get("name", "")))
        if tool is None:
            return _unknown(str(arguments.get("name", "")), self._searching)
        shown = offered(tool)
        return LocalResult(
            _json(
                {
                    "name": tool.name,
                    "server": tool.server,
                    "description": shown.description,
                    "arguments": shown.input_schema,
                }
            )
        )

    def _inner(self, given: dict[str, Any]) -> Meaning:
        arguments = inner_arguments(given.get("arguments"))
        if arguments is None:
            return LocalResult(f"{CALL} takes an object as `arguments`", is_error=True)
        return self._call(str(given.get("name", "")), arguments)

    def _call(self, name: str, arguments: dict[str, Any]) -> Meaning:
        tool = self._tools.get(name)
        return _unknown(name, self._searching) if tool is None else ServerToolCall(tool, arguments)


_ANSWERS = {SEARCH: ToolSearch.search, DESCRIBE: ToolSearch.describe}


def _unknown(name: str, searching: bool) -> LocalResult:
    where = f"find one with {SEARCH}" if searching else "use one of those that you were given"
    return LocalResult(f"There is no tool {clean_text(name[:100])!r}: {where}", is_error=True)


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _summary(tool: Tool) -> str:
    words = " ".join(within(tool.description or tool.title or "", 4 * _LINE).split())
    return words if len(words) <= _LINE else words[:_LINE] + "…"
