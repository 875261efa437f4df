"""Forms: conversion to a revision, defaults, validation of answers, and forms written by generators."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.protocol.errors import LocalError
from dovetail.protocol.revisions import REVISIONS
from dovetail.schema.form_check import check_form
from dovetail.schema.forms import CompiledForm, fill_defaults, fit_form, flat_field, flat_form, problems, read_form
from tests.protocol.revisions.official import official

from .form_samples import FIELDS, MULTIPLE, WHOLE, form


def test_a_rich_revision_writes_the_form_as_it_is():
    for revision in REVISIONS.values():
        if revision.form == "rich":
            assert fit_form(WHOLE, revision) == WHOLE


def test_a_plain_revision_has_names_beside_values_and_defaults_for_booleans_only():
    plain = REVISIONS["2025-06-18"]
    fitted = fit_form(form(FIELDS, "text", **{"$schema": "x"}), plain)
    assert "$schema" not in fitted
    assert fitted["required"] == ["text"]
    assert fitted["properties"]["titled"] == {"type": "string", "enum": ["#F00", "#0F0"], "enumNames": ["Red", "Green"]}
    assert fitted["properties"]["legacy"] == FIELDS["legacy"]
    assert [name for name, field in fitted["properties"].items() if "default" in field] == ["boolean"]
    assert "default" in FIELDS["titled"]


def test_a_plain_revision_cannot_ask_for_a_choice_of_several():
    with pytest.raises(LocalError, match="2025-06-18 has no choice of several, which the field many "):
        fit_form(form({"many": MULTIPLE["titled"]}), REVISIONS["2025-06-18"])


@pytest.mark.parametrize("name", ["2024-11-05", "2025-03-26"])
def test_a_revision_without_elicitation_has_no_forms(name):
    with pytest.raises(LocalError, match=f"{name} has no forms"):
        fit_form(WHOLE, REVISIONS[name])


@pytest.mark.parametrize("name", [name for name, revision in REVISIONS.items() if revision.form != "absent"])
def test_fitted_forms_follow_the_official_schema(name):
    revision = REVISIONS[name]
    fitted = fit_form(WHOLE if revision.form == "rich" else form(FIELDS), revision)
    request = {"method": "elicitation/create", "params": {"message": "?", "requestedSchema": fitted}}
    if revision.form == "rich":
        request |= {"jsonrpc": "2.0", "id": 1}
    assert official(name).problems("ElicitRequest", request) == []
    for field in fitted["properties"].values():
        assert official(name).problems("PrimitiveSchemaDefinition", field) == []


def test_defaults_fill_what_was_left_out_in_the_order_of_the_form():
    filled = fill_defaults(WHOLE, {"integer": 7, "text": "hi", "other": 1})
    assert filled == {
        "text": "hi",
        "pattern": "a",
        "number": 0.5,
        "integer": 7,
        "boolean": True,
        "untitled": "b",
        "titled": "#F00",
        "many_titled": ["#F00"],
        "other": 1,
    }
    assert list(filled)[:3] == ["text", "pattern", "number"]


def test_a_default_list_is_a_copy():
    fill_defaults(WHOLE, {})["many_titled"].append("#0F0")
    assert MULTIPLE["titled"]["default"] == ["#F00"]


def test_content_that_fits_has_no_problems():
    content = {
        "text": "hi",
        "email": "a@example.com",
        "uri": "https://example.com/a?b",
        "date": "2026-07-28",
        "moment": "2026-07-28T12:00:00+02:00",
        "integer": 2.0,
        "legacy": "a",
        "many_untitled": ["a", "b"],
    }
    assert problems(WHOLE, fill_defaults(WHOLE, content)) == []


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({}, 'the required field "text" is missing'),
        ({"text": 1}, "text: must be of type string, not the integer 1"),
        ({"text": None}, "text: must be of type string, not null"),
        ({"text": ""}, "text: must have at least 1 characters"),
        ({"text": "x" * 10}, "text: must have at most 9 characters"),
        ({"text": "a", "other": 1}, 'unknown field "other"'),
        ({"text": "a", "pattern": "A"}, 'pattern: must match the pattern ^[a-z]+$, not "A"'),
        ({"text": "a", "email": "nobody"}, 'email: must be a valid email, not "nobody"'),
        ({"text": "a", "uri": "nowhere"}, 'uri: must be a valid uri, not "nowhere"'),
        ({"text": "a", "date": "28.7.2026"}, 'date: must be a valid date, not "28.7.2026"'),
        ({"text": "a", "moment": "2026-07-28"}, 'moment: must be a valid date-time, not "2026-07-28"'),
        ({"text": "a", "number": 2}, "number: must be at most 1.5, not 2"),
        ({"text": "a", "integer": 1.5}, "integer: must be of type integer, not the number 1.5"),
        ({"text": "a", "integer": True}, "integer: must be of type integer, not the boolean true"),
        ({"text": "a", "boolean": "yes"}, 'boolean: must be of type boolean, not the string "yes"'),
        ({"text": "a", "untitled": "c"}, 'untitled: must be one of "a", "b", not "c"'),
        ({"text": "a", "legacy": "A"}, 'legacy: must be one of "a", "b", not "A"'),
        ({"text": "a", "titled": "Red"}, 'titled: must be one of "#F00", "#0F0", not "Red"'),
        ({"text": "a", "many_untitled": []}, "many_untitled: must have at least 1 items"),
        ({"text": "a", "many_titled": ["Red"]}, 'many_titled[0]: must be one of "#F00", "#0F0", not "Red"'),
        ({"text": "a", "many_titled": "#F00"}, 'many_titled: must be of type array, not the string "#F00"'),
    ],
)
def test_an_invalid_answer_is_described_in_a_sentence(content, said):
    assert problems(WHOLE, content) == [said]


def test_every_problem_of_an_answer_is_listed():
    assert len(problems(WHOLE, {"text": 1, "email": "x", "z": 1})) == 3


def test_a_pattern_that_could_take_exponential_time_is_left_to_the_server():
    fields = {"text": {"type": "string", "pattern": "^(?=a)(a+)+$", "maxLength": 3}}
    assert problems(form(fields), {"text": "b"}) == []
    assert problems(form(fields), {"text": "aaaa"}) == ["text: must have at most 3 characters"]
    assert "pattern" in fields["text"]


def test_a_compiled_form_compiles_its_schema_once_for_all_answers():
    compiled = CompiledForm(WHOLE)
    validator = compiled.validator
    assert compiled.problems({"text": "a"}) == []
    assert compiled.problems({"text": 1}) == problems(WHOLE, {"text": 1}) != []
    assert compiled.validator is validator


def test_a_compiled_form_fills_in_defaults():
    assert CompiledForm(WHOLE).fill_defaults({"text": "a"}) == fill_defaults(WHOLE, {"text": "a"})


def test_a_form_of_a_peer_is_read_in_the_style_of_the_newest_revision():
    nullable = {"anyOf": [{"type": "string"}, {"type": "null"}]}
    read = read_form(form({"a": nullable}, "a"))
    assert read.is_flat
    assert read.schema == form({"a": {"type": "string"}})
    assert read.problems({}) == []
    assert read.problems({"b": 1}) == ['unknown field "b"']


def test_a_schema_that_is_no_form_is_validated_as_the_schema_it_is():
    nested = form({"a": {"type": "object", "properties": {"b": {"type": "integer", "default": 1}}}}, "a")
    read = read_form(nested)
    assert (read.is_flat, read.schema) == (False, nested)
    assert read.fill_defaults({"a": {}}) == {"a": {}}
    assert read.problems({"a": {"b": 2}}) == []
    assert read.problems({}) == ['the required property "a" is missing']


def test_a_schema_that_cannot_be_used_at_all_is_refused_when_it_is_read():
    with pytest.raises(LocalError, match="cannot be used"):
        read_form({"type": "object", "properties": {"a": {"type": "nonsense"}}})


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
def test_schemas_that_cannot_become_forms_are_refused(written):
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
