"""Words of the command line as JSON values."""

from typing import Any

import pytest

from dovetail.cli.options.values import read_arguments, read_pairs
from dovetail.cli.parser import UsageError


def one(schema: dict[str, Any], text: str, **root: Any) -> Any:
    return read_arguments([f"x={text}"], {"properties": {"x": schema}, **root})["x"]


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({"type": "string"}, "5", "5"),
        ({"type": "string"}, "", ""),
        ({"type": "string"}, "a=b", "a=b"),
        ({"type": ["string", "null"]}, "null", "null"),
        ({"type": "integer"}, "5", 5),
        ({"type": "integer"}, "five", "five"),
        ({"type": "number"}, "5.5", 5.5),
        ({"type": "number"}, "nan", "nan"),
        ({"type": "boolean"}, "TRUE", True),
        ({"type": "boolean"}, "yes", "yes"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "null", None),
        ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, "5", 5),
        ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, "5a", "5a"),
        ({"type": "array", "items": {"type": "integer"}}, "1,2", [1, 2]),
        ({"type": "array", "items": {"type": "integer"}}, "[1]", [1]),
        ({"type": "array"}, "", []),
        ({"type": "object"}, '{"a":1}', {"a": 1}),
        ({"enum": ["1", "2"]}, "1", "1"),
        ({"enum": [1, 2]}, "1", 1),
        ({"const": True}, "true", True),
        ({}, "5", 5),
        ({}, "hi", "hi"),
        ({"$ref": "#/$defs/Day"}, "3", 3),
        ({"$ref": "#/$defs/Missing"}, "3", 3),
        ({"$ref": "#/$defs/Loop"}, "3", 3),
    ],
)
def test_a_value_is_read_by_its_schema(schema: dict[str, Any], text: str, value: Any) -> None:
    read = one(schema, text, **{"$defs": {"Day": {"type": "integer"}, "Loop": {"$ref": "#/$defs/Loop"}}})
    assert (type(read), read) == (type(value), value)


def test_a_key_that_repeats_is_a_list() -> None:
    listed = {"properties": {"x": {"type": "array", "items": {"type": "string"}}}}
    assert read_arguments(["x=a", "x=b", "x=c"], listed) == {"x": ["a", "b", "c"]}
    assert read_arguments(["x=1", "x=2"], {}) == {"x": [1, 2]}


def test_json_is_taken_as_it_is() -> None:
    assert read_arguments(['x:="5"', "y:=[1]"], {"properties": {"x": {"type": "integer"}}}) == {"x": "5", "y": [1]}


@pytest.mark.parametrize("word", ["x", "=1", ":=1", "x:=", "x:={", "o=1", "a=[1"])
def test_what_cannot_be_read_is_wrong_usage(word: str) -> None:
    with pytest.raises(UsageError):
        read_arguments([word], {"properties": {"o": {"type": "object"}, "a": {"type": "array"}}})


def test_a_schema_that_is_nonsense_hurts_nobody() -> None:
    for schema in ({"properties": 5}, {"properties": {"x": True}}, {"properties": {"x": {"anyOf": 5, "type": {}}}}):
        assert read_arguments(["x=1"], schema) == {"x": 1}


def test_key_value_pairs_are_parsed() -> None:
    assert read_pairs(["A=1", "B=x=y", "C="]) == {"A": "1", "B": "x=y", "C": ""}
    for words in (["A"], ["=1"], ["A=1", "A=2"]):
        with pytest.raises(UsageError):
            read_pairs(words)
