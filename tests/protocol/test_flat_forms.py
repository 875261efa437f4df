"""Forms written by generators, in the words that a form has."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.protocol.errors import LocalError
from dovetail.protocol.flat_forms import flat_field, flat_form
from dovetail.protocol.forms import check_form, fill_defaults, fit_form, problems
from dovetail.protocol.revisions import REVISIONS

ROOT = {
    "$defs": {"Color": {"title": "Color", "type": "string", "enum": ["red", "blue"]}, "Loop": {"$ref": "#/$defs/Loop"}}
}
COLORS = {"type": "string", "enum": ["red", "blue"]}


@pytest.mark.parametrize(
    ("written", "flat", "nullable"),
    [
        ({"type": "string", "format": "email"}, {"type": "string", "format": "email"}, False),
        ({"type": "string", "format": "uuid"}, {"type": "string"}, False),
        ({"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}], "default": None, "title": "N"},
         {"type": "integer", "minimum": 1, "title": "N"}, True),
        ({"type": ["string", "null"]}, {"type": "string"}, True),
        ({"type": ["number", "string"]}, {"type": "number"}, False),
        ({"$ref": "#/$defs/Color", "default": "red"}, COLORS | {"default": "red"}, False),
        ({"allOf": [{"$ref": "#/$defs/Color"}], "description": "d"}, COLORS | {"description": "d"}, False),
        ({"anyOf": [{"$ref": "#/$defs/Color"}, {"type": "null"}]}, COLORS, True),
        ({"const": "a"}, {"type": "string", "enum": ["a"]}, False),
        ({"enum": ["a", None]}, {"type": "string", "enum": ["a"]}, True),
        ({"anyOf": [{"const": "a", "title": "A"}]}, {"type": "string", "oneOf": [{"const": "a", "title": "A"}]}, False),
        ({"type": "array", "items": {"$ref": "#/$defs/Color"}}, {"type": "array", "items": COLORS}, False),
        ({"type": "array", "items": {"type": "string", "oneOf": [{"const": "a", "title": "A"}]}},
         {"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}}, False),
        ({"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 9},
         {"type": "integer", "minimum": 1, "maximum": 8}, False),
        ({"type": "number", "exclusiveMinimum": 0}, {"type": "number", "exclusiveMinimum": 0}, False),
    ],
)  # fmt: skip
def test_a_field_is_said_in_the_words_of_a_form(written, flat, nullable):
    assert flat_field(written, ROOT) == (flat, nullable)


def test_a_field_is_not_changed_in_place():
    written = {"type": "array", "items": {"$ref": "#/$defs/Color"}, "default": None}
    flat_field(written, ROOT)
    assert written == {"type": "array", "items": {"$ref": "#/$defs/Color"}, "default": None}


@pytest.mark.parametrize(
    "written", [7, {"$ref": "#/$defs/Loop"}, {"$ref": "#/$defs/None"}, {"$ref": 1}, {"$ref": "http://x"}]
)
def test_a_field_without_an_end_is_refused(written):
    with pytest.raises(LocalError):
        flat_field(written, ROOT)


def test_a_generated_form_becomes_a_form_with_optional_fields():
    generated = {
        **ROOT,
        "title": "Ask",
        "type": "object",
        "additionalProperties": False,
        "properties": {"name": {"type": "string"}, "color": {"anyOf": [{"$ref": "#/$defs/Color"}, {"type": "null"}]}},
        "required": ["name", "color"],
    }
    assert flat_form(generated) == {
        "title": "Ask",
        "type": "object",
        "properties": {"name": {"type": "string"}, "color": COLORS},
        "required": ["name"],
    }


@pytest.mark.parametrize(
    "written",
    [
        {},
        {"type": "object"},
        {"type": "object", "properties": 3},
        {"type": "object", "properties": {"a": {"type": "object", "properties": {}}}},
        {"type": "object", "properties": {"a": {"anyOf": [{"type": "string"}, {"type": "integer"}]}}},
        {"type": "object", "properties": {"a": {"anyOf": []}}},
    ],
)
def test_what_cannot_be_a_form_is_refused(written):
    with pytest.raises(LocalError):
        flat_form(written)


_WORDS = st.sampled_from(
    "type properties required items enum enumNames oneOf anyOf allOf const title default format $ref $defs a".split()
)
_LEAVES = st.sampled_from(
    [
        None,
        True,
        0,
        -1,
        1.5,
        "object",
        "string",
        "array",
        "integer",
        "email",
        "a",
        "#/$defs/a",
        "",
        ["a"],
        ["string", "null"],
    ]
)
_JSON = st.recursive(
    _LEAVES, lambda part: st.lists(part, max_size=3) | st.dictionaries(_WORDS, part, max_size=4), max_leaves=12
)


@settings(max_examples=400, deadline=None)
@given(st.dictionaries(st.sampled_from("abc"), _JSON, max_size=3), st.dictionaries(_WORDS, _JSON, max_size=3), _JSON)
def test_no_schema_breaks_the_reader(fields, rest, answer):
    schema = {**rest, "type": "object", "properties": fields}
    try:
        form = flat_form(schema)
    except LocalError:
        return
    check_form(form)
    assert isinstance(problems(form, fill_defaults(form, {"a": answer})), list)
    plain = REVISIONS["2025-06-18"]
    if all(field["type"] != "array" for field in form["properties"].values()):
        check_form(fit_form(form, plain))
