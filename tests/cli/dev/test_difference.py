"""The difference between two versions of an interface, tested with values."""

from typing import Any

from dovetail.cli.dev.difference import interface_difference

NUMBER = {"type": "integer"}


def tool(**arguments: Any) -> dict[str, Any]:
    return {"inputSchema": {"type": "object", "properties": arguments, "required": list(arguments)}}


def test_new_and_removed_tools_are_signatures() -> None:
    before = {"tools": {"add": tool(a=NUMBER)}}
    after = {"tools": {"greet": {**tool(name={"type": "string"}), "outputSchema": {"type": "string"}}}}
    assert interface_difference(before, after) == "+ greet(name: str) -> str\n! - add(a: int)"


def test_a_changed_tool_is_reported_by_its_parameters() -> None:
    difference = interface_difference({"tools": {"add": tool(a=NUMBER)}}, {"tools": {"add": tool(a=NUMBER, b=NUMBER)}})
    assert difference == 'tool "add"\n  ! parameter "b" is new and required'


def test_the_same_interface_has_no_difference() -> None:
    assert interface_difference({"tools": {"add": tool(a=NUMBER)}}, {"tools": {"add": tool(a=NUMBER)}}) == ""
    assert interface_difference({}, {}) == ""
