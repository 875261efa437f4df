"""Problems as sentences."""

from __future__ import annotations

import jsonschema_rs
import msgspec
import pytest

from dovetail.schema.error_text import conversion_error, error_sentences, json_preview, with_path


def told(schema, value):
    return [text for error in jsonschema_rs.iter_errors(schema, value) for text in error_sentences(error)]


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        ({"type": "integer"}, "5", 'must be of type integer, not the string "5"'),
        ({"type": "integer"}, None, "must be of type integer, not null"),
        ({"type": "integer"}, [1], "must be of type integer, not array"),
        ({"type": ["null", "string"]}, 5, "must be of type string or null, not the integer 5"),
        ({"minimum": 3}, 2, "must be at least 3, not 2"),
        ({"exclusiveMinimum": 3}, 3, "must be greater than 3, not 3"),
        ({"maximum": 3}, 4, "must be at most 3, not 4"),
        ({"exclusiveMaximum": 3}, 3, "must be less than 3, not 3"),
        ({"multipleOf": 5}, 3, "must be a multiple of 5, not 3"),
        ({"minLength": 3}, "a", "must have at least 3 characters"),
        ({"maxLength": 1}, "ab", "must have at most 1 characters"),
        ({"pattern": "^a{2}$"}, "b", 'must match the pattern ^a{2}$, not "b"'),
        ({"minItems": 1}, [], "must have at least 1 items"),
        ({"maxItems": 1}, [1, 2], "must have at most 1 items"),
        ({"uniqueItems": True}, [1, 1], "must not hold the same item twice"),
        ({"minProperties": 1}, {}, "must have at least 1 properties"),
        ({"maxProperties": 0}, {"a": 1}, "must have at most 0 properties"),
        ({"const": "{x}"}, 2, 'must be "{x}", not 2'),
        ({"const": {"a": 1}}, 2, 'must be {"a":1}, not 2'),
        ({"enum": [1, "a"]}, 2, 'must be one of 1, "a", not 2'),
        ({"required": ["a"]}, {}, 'the required property "a" is missing'),
        ({"properties": {"a": {}}, "additionalProperties": False}, {"b": 1}, 'unknown property "b"'),
        ({"properties": {"a": False}}, {"a": 1}, "a: must not be given"),
        ({"propertyNames": {"maxLength": 1}}, {"ab": 1}, "a property name must have at most 1 characters"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "a",
         'must be of type integer or null, not the string "a"'),
        ({"anyOf": [{"minimum": 3}, {"type": "null"}]}, 1, "must be at least 3, not 1"),
        ({"oneOf": [{"minimum": 3}, {"maximum": 0}]}, 1,
         "fits none of the alternatives: must be at least 3, not 1 | must be at most 0, not 1"),
        ({"properties": {"a": {"items": {"anyOf": [{"required": ["b"]}, {"type": "null"}]}}}}, {"a": [{}]},
         'a[0]: the required property "b" is missing'),
    ],
)  # fmt: skip
def test_each_keyword_has_its_sentence(schema, value, expected):
    assert told(schema, value) == [expected]


def test_keywords_without_a_sentence_use_the_engines():
    (text,) = told({"not": {"type": "string"}}, "a" * 10_000)
    assert len(text) < 300


def test_long_values_of_a_peer_are_shortened():
    assert len(json_preview("a" * 1_000_000)) < 80
    assert len(json_preview(["a"] * 1000)) < 80
    assert json_preview(object()) == "object"
    assert len(told({"enum": ["x" * 1000]}, "y" * 1000)[0]) < 300


def test_paths_are_written_before_the_sentence():
    assert with_path(["a", 0, "b", 1], "x") == "a[0].b[1]: x"
    assert with_path([], "x") == "x"


def test_errors_of_msgspec_are_put_the_same_way():
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.convert({"a": [1]}, dict[str, list[str]])
    assert conversion_error(caught.value) == "[...][0]: expected str, got int"
