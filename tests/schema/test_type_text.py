"""Type texts and signatures from JSON Schemas, tested with values."""

from typing import Any

import pytest

from dovetail import Client, Server
from dovetail.schema.type_text import Argument, arguments, signature, type_text


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"type": "integer"}, "int"),
        ({"type": "number"}, "float"),
        ({"type": "string", "format": "date-time"}, "datetime"),
        ({"type": "string", "format": "email"}, "str"),
        ({"type": ["string", "null"]}, "str | None"),
        ({"anyOf": [{"type": "null"}, {"type": "array", "items": {"type": "integer"}}]}, "list[int] | None"),
        ({"enum": ["a", "b", None]}, '"a" | "b" | None'),
        ({"enum": list(range(20))}, "0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | …"),
        ({"const": True}, "True"),
        ({"type": "array"}, "list"),
        ({"type": "array", "prefixItems": [{"type": "integer"}, {}]}, "tuple[int, Any]"),
        ({"type": "object"}, "dict"),
        ({"type": "object", "additionalProperties": {"type": "string"}}, "dict[str, str]"),
        ({"type": "object", "properties": {"x": {}, "y": {}}}, "{x, y}"),
        ({"type": "object", "title": "Point", "properties": {"x": {}}}, "Point"),
        ({"anyOf": [{"type": "string"}, {}]}, "Any"),
        ({}, "Any"),
        (True, "Any"),
        (False, "Never"),
        ({"type": "unheard-of"}, "Any"),
        ({"anyOf": []}, "Never"),
        ({"type": [], "properties": 3, "required": "x"}, "Never"),
    ],
)
def test_a_schema_has_a_short_text(schema: Any, text: str) -> None:
    assert type_text(schema) == text


def test_a_reference_is_named_if_it_is_an_object_and_otherwise_written_out() -> None:
    definitions = {"Stay": {"type": "object"}, "Names": {"type": "array", "items": {"type": "string"}}}
    root = {"$defs": definitions}
    assert type_text({"$ref": "#/$defs/Stay"}, root) == "Stay"
    assert type_text({"$ref": "#/$defs/Names"}, root) == "list[str]"
    assert type_text({"$ref": "#/$defs/Missing"}, root) == "Missing"
    assert type_text({"$ref": "https://example.com/schema"}, root) == "Any"


def test_definitions_that_refer_to_each_other_without_end_have_a_text() -> None:
    loop = {"$ref": "#/$defs/loop"}
    assert type_text(loop, {"$defs": {"loop": {"anyOf": [loop, {"type": "array", "items": loop}]}}})
    nested: dict[str, Any] = {"type": "integer"}
    for _ in range(500):
        nested = {"type": "array", "items": nested}
    assert type_text(nested) == "list[list[list[list[list[list]]]]]"


def test_arguments_have_a_type_a_default_and_a_description_the_required_ones_first() -> None:
    schema = {
        "type": "object",
        "properties": {
            "b": {"type": "integer", "default": 3, "description": "How many."},
            "c": {"type": "string"},
            "a": {"type": "integer"},
        },
        "required": ["a"],
    }
    assert arguments(schema) == [
        Argument("a", "int", required=True),
        Argument("b", "int", required=False, default="3", description="How many."),
        Argument("c", "str", required=False),
    ]
    assert signature("add", schema, {"type": "integer"}) == "add(a: int, b: int = 3, c?: str) -> int"


def test_a_tool_of_ours_reads_like_the_function_it_was_made_of() -> None:
    server = Server("texts")

    @server.tool
    def find(words: list[str], exact: bool = False, limit: int | None = None, sort: str = "name") -> dict[str, float]:
        return {}

    with Client.blocking(server) as client:
        [tool] = client.tools()
    assert signature(tool.name, tool.input_schema, tool.output_schema) == (
        'find(words: list[str], exact: bool = False, limit: int | None = None, sort: str = "name") -> dict[str, float]'
    )
