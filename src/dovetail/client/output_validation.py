"""Checking that tools return what they promised (tools, "Output Schema": clients SHOULD validate)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from dovetail.protocol.errors import DovetailError, InvalidAnswer, LocalError
from dovetail.types.tools import CallToolResult, Tool

if TYPE_CHECKING:
    from dovetail.schema.validation import Validator

    from .client import Client


class OutputValidator:
    """The output schemas of a server's tools, as far as they are known."""

    def __init__(self) -> None:
        self._schemas: dict[str, dict[str, Any] | None] | None = None
        self._validators: dict[str, Validator] = {}

    def learn(self, tools: list[Tool]) -> None:
        """Take the schemas from a list of tools."""
        self._schemas = {tool.name: tool.output_schema for tool in tools}
        self._validators.clear()

    def notified(self, method: str, params: dict[str, Any]) -> None:
        """Forget them when the list changes."""
        if method == "notifications/tools/list_changed":
            self._schemas = None

    async def check(self, name: str, result: CallToolResult, client: Client) -> None:
        """Hold a result against its tool's schema; the tools are listed once when they are not known yet."""
        if result.structured_content is msgspec.UNSET:
            return
        fresh = self._schemas is None
        if fresh:
            await self._list(client)
        problems = self._problems(name, result)
        if problems and not fresh:
            # The tool may have changed without our hearing of it.
            await self._list(client)
            problems = self._problems(name, result)
        if problems:
            raise InvalidAnswer(
                f"Tool {name!r} returned something else than its output schema says: {'; '.join(problems)}"
            )

    async def _list(self, client: Client) -> None:
        try:
            await client.tools()
        except DovetailError:
            self._schemas = {}

    def _problems(self, name: str, result: CallToolResult) -> list[str]:
        schema = (self._schemas or {}).get(name)
        if schema is None:
            return []
        validator = self._validators.get(name)
        if validator is None:
            from dovetail.schema.validation import compile_schema

            try:
                validator = self._validators[name] = compile_schema(schema)
            except LocalError as problem:
                raise InvalidAnswer(f"The output schema of tool {name!r} cannot be used: {problem}") from problem
        content = result.structured_content
        return [] if validator.is_valid(content) else validator.problems(content)
