"""Tools: definitions, calls and results."""

from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, cast

import msgspec

from .base import PageResult, Result, RetriedParams
from .capabilities import Icon
from .content import Content, Text
from .serialization import Value, local_field
from .tasks import TaskMetadata

if TYPE_CHECKING:
    # Only for type checkers, whose `typing_extensions` is built in: a result without a type is one of Any.
    from typing_extensions import TypeVar

    T_co = TypeVar("T_co", covariant=True, default=Any)
else:
    T_co = TypeVar("T_co", covariant=True)

DATA_MARK = "dovetail/data"
"""Key in the `_meta` of a result that says where the bare value is: "wrapped", "json" or "text"."""


class ToolAnnotations(Value, kw_only=True):
    """Hints about what a tool does; a client must not trust them from a server it does not trust."""

    title: str | None = None
    read_only_hint: bool | None = None
    destructive_hint: bool | None = None
    idempotent_hint: bool | None = None
    open_world_hint: bool | None = None


class ToolExecution(Value):
    """Execution properties of a tool: its support for tasks (2025-11-25)."""

    task_support: Literal["forbidden", "optional", "required"] | None = None


class Tool(Value):
    """The definition of a tool; its `output_schema` describes the bare value on every revision."""

    name: str
    input_schema: dict[str, Any]
    title: str | None = None
    description: str | None = None
    output_schema: dict[str, Any] | None = None
    annotations: ToolAnnotations | None = None
    execution: ToolExecution | None = None
    icons: list[Icon] | None = None


class ListToolsResult(PageResult):
    """One page of tools."""

    tools: list[Tool] = msgspec.field(default_factory=list[Tool])


class CallToolParams(RetriedParams):
    """Params of `tools/call`."""

    name: str
    arguments: dict[str, Any] | None = None
    task: TaskMetadata | None = None


class CallToolResult(Result, Generic[T_co]):
    """Result of `tools/call`; `CallToolResult[Book]` has the type of `data`.

    `structured_content` is the bare value that the tool returned where Dovetail makes the result, and the value
    from the wire where Dovetail reads one; `data` is the bare value in both cases.
    """

    content: list[Content] = msgspec.field(default_factory=list[Content])
    structured_content: Any = msgspec.UNSET
    is_error: bool | None = False
    wrapped: bool = msgspec.field(default=False, name=local_field("wrapped"))
    """The output schema is not of an object, so that revisions that require one get `{"result": value}`."""
    wrapped_by_schema: bool = msgspec.field(default=False, name=local_field("wrapped_by_schema"))
    """A result that was read is `{"result": value}`, as the output schema of its tool says."""
    converted: Any = msgspec.field(default=msgspec.UNSET, name=local_field("converted"))
    """The value as the type that the caller asked for, if it did."""

    @property
    def text(self) -> str:
        """All text blocks, joined by newlines."""
        return "\n".join(block.text for block in self.content if isinstance(block, Text))

    @property
    def data(self) -> T_co:
        """The value that the tool returned, bare on every revision; None if it returned only content."""
        return self.bare_value() if self.converted is msgspec.UNSET else self.converted

    def bare_value(self) -> Any:
        """The value that the tool returned, as JSON."""
        structured = self.structured_content
        if structured is not msgspec.UNSET:
            wrapped = self.wrapped_by_schema or _is_wrapped(self.meta)
            if wrapped and isinstance(structured, dict) and "result" in structured:
                return cast("dict[str, Any]", structured)["result"]
            return cast(Any, structured)
        mark = self.meta.get(DATA_MARK) if self.meta else None
        text = self.first_text() if mark in ("json", "text") else None
        if text is None or mark == "text":
            return text
        try:
            return msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError):
            return text

    def first_text(self) -> str | None:
        """The first text block: the structured content as text, if there is structured content."""
        for block in self.content:
            if isinstance(block, Text):
                return block.text
        return None


def _is_wrapped(meta: dict[str, Any] | None) -> bool:
    if not meta:
        return False
    fastmcp = meta.get("fastmcp")
    if isinstance(fastmcp, dict) and cast("dict[str, Any]", fastmcp).get("wrap_result") is True:
        return True
    return meta.get(DATA_MARK) == "wrapped"
