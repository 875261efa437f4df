"""Validation of tool results against output schemas (tools, "Output Schema": clients SHOULD validate)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import msgspec

from dovetail.protocol.errors import DovetailError, InvalidAnswer, LocalError
from dovetail.types.tools import CallToolResult, Tool
from dovetail.wire import codec

if TYPE_CHECKING:
    from dovetail.schema.validation import Validator


class OutputValidator:
    """The output schemas of a server's tools, each compiled when it is first needed.

    A validator is kept until the schema of its tool changes: listing the tools again compiles nothing.
    """

    def __init__(self) -> None:
        self._schemas: dict[str, dict[str, Any] | None] = {}
        self._current = False
        self._validators: dict[str, tuple[bytes, Validator]] = {}
        """By tool: the schema as JSON, and its validator."""

    def learn(self, tools: list[Tool]) -> None:
        """Use the output schemas of a list of tools."""
        self._schemas = {tool.name: tool.output_schema for tool in tools}
        self._current = True
        self._validators = {
            name: compiled
            for name, compiled in self._validators.items()
            if (schema := self._schemas.get(name)) is not None and codec.encode(schema) == compiled[0]
        }

    def notified(self, method: str, params: dict[str, Any]) -> None:
        """Notice that the tools have changed: they are listed again before the next result is validated."""
        if method == "notifications/tools/list_changed":
            self._current = False

    async def check(self, name: str, result: CallToolResult, list_tools: Callable[[], Awaitable[object]]) -> None:
        """Raise `InvalidAnswer` for a result that does not fit; `list_tools` has to call `learn`."""
        if result.structured_content is msgspec.UNSET:
            return
        listed = not self._current
        if listed:
            await self._list(list_tools)
        problems = self._problems(name, result)
        if problems and not listed:
            # The tool may have changed without a notification.
            await self._list(list_tools)
            problems = self._problems(name, result)
        if problems:
            raise InvalidAnswer(
                f"Tool {name!r} returned something else than its output schema says: {'; '.join(problems)}"
            )

    async def _list(self, list_tools: Callable[[], Awaitable[object]]) -> None:
        try:
            await list_tools()
        except DovetailError:
            self._schemas, self._current = {}, True

    def _problems(self, name: str, result: CallToolResult) -> list[str]:
        validator = self._validator(name)
        content = result.structured_content
        return [] if validator is None or validator.is_valid(content) else validator.problems(content)

    def _validator(self, name: str) -> Validator | None:
        if (compiled := self._validators.get(name)) is not None:
            return compiled[1]
        schema = self._schemas.get(name)
        if schema is None:
            return None
        from dovetail.schema.validation import compile_schema

        try:
            validator = compile_schema(schema)
        except LocalError as problem:
            raise InvalidAnswer(f"The output schema of tool {name!r} cannot be used: {problem}") from problem
        self._validators[name] = (codec.encode(schema), validator)
        return validator
