"""Tools and what came of a call."""

from typing import Any

import msgspec
import pytest

from dovetail.types.content import Image, Text
from dovetail.types.serialization import dump, load
from dovetail.types.tools import DATA_MARK, CallToolParams, CallToolResult, Tool, ToolAnnotations

FASTMCP = {"fastmcp": {"wrap_result": True}}


def result(content: list[Any], structured: Any = msgspec.UNSET, meta: dict[str, Any] | None = None) -> CallToolResult:
    return CallToolResult(content, structured, meta=meta)


def test_text_is_all_text_blocks() -> None:
    assert result([Text("a"), Image(b"", "image/png"), Text("b")]).text == "a\nb"
    assert result([]).text == ""


@pytest.mark.parametrize(
    ("value", "data"),
    [
        (result([Text("only text")]), None),
        (result([], {"a": 1}), {"a": 1}),
        (result([], {"result": 1}), {"result": 1}),
        (result([], None), None),
        (result([], [1, 2]), [1, 2]),
        (result([], {"result": 1}, {DATA_MARK: "wrapped"}), 1),
        (result([], {"result": None}, {DATA_MARK: "wrapped"}), None),
        (result([], {"result": 1}, FASTMCP), 1),
        (result([], {"result": 1}, {"fastmcp": {"wrap_result": False}}), {"result": 1}),
        (result([], {"result": 1}, {"fastmcp": "odd"}), {"result": 1}),
        (result([], {"other": 1}, {DATA_MARK: "wrapped"}), {"other": 1}),
        (result([], [1], {DATA_MARK: "wrapped"}), [1]),
        (result([Text("[1, 2]")], meta={DATA_MARK: "json"}), [1, 2]),
        (result([Image(b"", "image/png"), Text("5"), Text("6")], meta={DATA_MARK: "json"}), 5),
        (result([Text("5")], meta={DATA_MARK: "text"}), "5"),
        (result([Text("not json")], meta={DATA_MARK: "json"}), "not json"),
        (result([Text("[" * 100_000)], meta={DATA_MARK: "json"}), "[" * 100_000),
        (result([], meta={DATA_MARK: "json"}), None),
        (result([Text("5")], meta={DATA_MARK: ["odd"]}), None),
    ],
)
def test_data_is_the_bare_value(value: CallToolResult, data: Any) -> None:
    assert value.data == data


def test_errors_and_missing_content() -> None:
    assert load(CallToolResult, {"content": [], "isError": True}).is_error is True
    assert load(CallToolResult, {}).content == []
    assert load(CallToolResult, {"content": []}).is_error is False
    assert dump(CallToolResult()) == {"content": []}


def test_params_of_a_call_are_read_and_written() -> None:
    params = load(CallToolParams, {"name": "a", "task": {"ttl": 5}, "_meta": {"progressToken": 1}})
    assert params.arguments is None
    assert params.task is not None and params.task.ttl == 5
    assert params.meta == {"progressToken": 1}


def test_a_tool_on_the_wire() -> None:
    tool = Tool("a", {"type": "object"}, annotations=ToolAnnotations(read_only_hint=True))
    assert dump(tool) == {
        "name": "a",
        "inputSchema": {"type": "object"},
        "annotations": {"readOnlyHint": True},
    }
