"""Schemas of `{"result": value}` mean the same as the schema of the value."""

from typing import Any

import jsonschema_rs
import pytest

from dovetail.protocol.revisions.wrapping import is_object_schema, wrap_schema

TREE = {"type": "array", "items": {"$ref": "#"}}
NODE = {
    "$ref": "#/$defs/Node",
    "$defs": {
        "Node": {
            "type": "object",
            "properties": {"next": {"$ref": "#/$defs/Node"}},
            "additionalProperties": False,
        }
    },
}


def test_only_object_schemas_need_no_wrapping() -> None:
    assert is_object_schema({"type": "object"})
    for schema in ({"type": "array"}, {"type": ["object", "null"]}, {"$ref": "#/$defs/A"}, {"anyOf": []}, {}):
        assert not is_object_schema(schema)


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"type": "integer"}, 5, "x"),
        (TREE, [[], [[]]], [[5]]),
        (NODE, {"next": {"next": {}}}, {"next": {"other": 1}}),
        (
            {
                "$schema": "http://json-schema.org/draft-07/schema#",
                "definitions": {"a": {"type": "string"}},
                "items": {"$ref": "#/definitions/a"},
            },
            ["a"],
            [1],
        ),
        ({"oneOf": [{"type": "string"}, {"items": {"$ref": "#/oneOf/0"}, "type": "array"}]}, ["a"], [1]),
        (
            {
                "$defs": {"list": {"type": "array", "items": {"$ref": "#"}}},
                "anyOf": [{"type": "null"}, {"$ref": "#/$defs/list"}],
            },
            [None, []],
            [1],
        ),
        ({"$id": "urn:x:tree", "type": "array", "items": {"$ref": "#"}}, [[]], [1]),
        (
            {"$id": "urn:x:def", "$defs": {"a": {"type": "string"}}, "items": {"$ref": "#/$defs/a"}},
            ["a"],
            [1],
        ),
        (
            {
                "type": "array",
                "items": {"$id": "urn:x:inner", "properties": {"a": {"$ref": "#"}}, "type": "object"},
            },
            [{"a": {}}],
            [{"a": 1}],
        ),
    ],
)
def test_the_wrapped_schema_means_the_same(schema: dict[str, Any], good: Any, bad: Any) -> None:
    wrapped = wrap_schema(schema)
    assert wrapped["type"] == "object"
    assert wrapped.get("$schema") == schema.get("$schema")
    validator = jsonschema_rs.validator_for(wrapped)
    assert jsonschema_rs.is_valid(schema, good)
    assert not jsonschema_rs.is_valid(schema, bad)
    assert validator.is_valid({"result": good})
    assert not validator.is_valid({"result": bad})
    assert not validator.is_valid({})
    assert not validator.is_valid(5)


def test_shared_definitions_move_to_the_top() -> None:
    wrapped = wrap_schema({"type": "array", "items": {"$ref": "#/$defs/a"}, "$defs": {"a": {}}, "$schema": "s"})
    assert wrapped == {
        "$schema": "s",
        "$defs": {"a": {}},
        "type": "object",
        "properties": {"result": {"type": "array", "items": {"$ref": "#/$defs/a"}}},
        "required": ["result"],
        "x-fastmcp-wrap-result": True,
    }


def test_the_schema_given_is_left_alone() -> None:
    schema = {"type": "array", "items": {"$ref": "#"}}
    wrap_schema(schema)
    assert schema == {"type": "array", "items": {"$ref": "#"}}
