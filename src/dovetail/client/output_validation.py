"""Validation of tool results against output schemas (tools, "Output Schema": clients SHOULD validate)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import msgspec

from dovetail.protocol.errors import DovetailError, InvalidAnswer, LocalError
from dovetail.protocol.revisions.wrapping import WRAP_MARK
from dovetail.types.bounded_dict import BoundedDict
from dovetail.types.tools import CallToolResult, Tool
from dovetail.wire import codec

if TYPE_CHECKING:
    from dovetail.schema.validation import Validator

MAX_VALIDATORS = 100
"""Compiled schemas that are kept; beyond that the oldest is compiled again when it is needed."""


class OutputValidator:
    """The output schemas of a server's tools, each compiled when it is first needed.

    A validator is kept until the schema of its tool changes: listing the tools again compiles nothing.
    """

    def __init__(self) -> None:
        self._schemas: dict[str, dict[str, Any] | None] = {}
        self._current = False
        self._validators: BoundedDict[str, tuple[bytes, Validator]] = BoundedDict(MAX_VALIDATORS)
        """By tool: the schema as JSON, and its validator."""

    def learn(self, tools: list[Tool]) -> None:
        """Use the output schemas of a list of tools."""
        self._schemas = {tool.name: tool.output_schema for tool in tools}
        self._current = True
        for name, compiled in list(self._validators.items()):
            schema = self._schemas.get(name)
            if schema is None or codec.encode(schema) != compiled[0]:
                del self._validators[name]

    def notified(self, method: str, params: dict[str, Any]) -> None:
        """Notice that the tools have changed: they are listed again before the next result is validated."""
        if method == "notifications/tools/list_changed":
            self._current = False

    async def check(self, name: str, result: CallToolResult, list_tools: Callable[[], Awaitable[object]]) -> None:
        """Raise `InvalidAnswer` for a result that does not fit; `list_tools` has to call `learn`.

        A result that its schema marks as wrapped is marked too: FastMCP 2 writes the mark only there.
        """
        if result.structured_content is msgspec.UNSET:
            return
        listed = not self._current
        if listed:
            await self._list(list_tools)
        problems = await self._problems(name, result)
        if problems and not listed:
            # The tool may have changed without a notification.
            await self._list(list_tools)
            problems = await self._problems(name, result)
        schema = self._schemas.get(name)
        if schema is not None and schema.get(WRAP_MARK) is True:
            result.wrapped_by_schema = True
        if problems:
            raise InvalidAnswer(
                f"Tool {name!r} returned something else than its output schema says: {'; '.join(problems)}"
            )

    async def _list(self, list_tools: Callable[[], Awaitable[object]]) -> None:
        try:
            await list_tools()
        except DovetailError:
            self._schemas, self._current = {}, True

    async def _problems(self, name: str, result: CallToolResult) -> list[str]:
        compiled = self._validators.get(name)
        validator = await self._compile(name) if compiled is None else compiled[1]
        content = result.structured_content
        return [] if validator is None or validator.is_valid(content) else validator.problems(content)

    async def _compile(self, name: str) -> Validator | None:
        schema = self._schemas.get(name)
        if schema is None:
            return None
        from dovetail.runtime.thread_pool import run_in_thread
        from dovetail.schema.validation import compile_schema

        try:
            # In a thread: the server wrote the schema.
            validator = await run_in_thread(compile_schema, schema)
        except LocalError as problem:
            raise InvalidAnswer(f"The output schema of tool {name!r} cannot be used: {problem}") from problem
        self._validators[name] = (codec.encode(schema), validator)
        return validator
