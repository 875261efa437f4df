"""Rules for forms: which schemas are forms, and the errors for those that are not."""

import pytest

from dovetail.protocol.errors import LocalError
from dovetail.schema.form_check import check_form, choices

from .form_samples import FIELDS, MULTIPLE, TITLED, WHOLE, form


@pytest.mark.parametrize("schema", [WHOLE, form({}), {"type": "object", "properties": {}}, *map(form, [MULTIPLE])])
def test_a_form_is_accepted(schema):
    check_form(schema)


@pytest.mark.parametrize(
    ("field", "said"),
    [
        (True, "must be a schema"),
        ({}, "may be of several types"),
        ({"type": ["string", "null"]}, "may be of several types"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "may be of several types"),
        ({"$ref": "#/$defs/X"}, "may be of several types"),
        ({"type": "null"}, 'is of type "null"'),
        ({"type": "object", "properties": {}}, "a form is flat"),
        ({"type": "array"}, "lists of choices only"),
        ({"type": "array", "items": {"type": "string"}}, "lists of choices only"),
        ({"type": "array", "items": {"type": "object", "properties": {}}}, "lists of choices only"),
        ({"type": "array", "items": {"enum": ["a"]}}, "not strings"),
        ({"type": "array", "items": {"anyOf": [{"const": "a"}]}}, '"const" and a "title"'),
        ({"type": "array", "items": {"type": "string", "enum": ["a"]}, "default": ["b"]}, 'the default ["b"]'),
        ({"type": "array", "items": {"type": "string", "enum": ["a"]}, "default": "a"}, 'the default "a"'),
        ({"type": "string", "enum": [1]}, "not strings"),
        ({"type": "integer", "enum": [1], "oneOf": []}, "uses oneOf"),
        ({"type": "string", "enum": ["a"], "enumNames": []}, "one name in enumNames"),
        ({"type": "string", "oneOf": []}, '"const" and a "title"'),
        ({"type": "string", "oneOf": [{"type": "string"}]}, '"const" and a "title"'),
        ({"type": "string", "oneOf": {"const": "a"}}, '"const" and a "title"'),
        ({"type": "string", "format": "uuid"}, 'the format "uuid"'),
        ({"type": "string", "contentEncoding": "base64"}, "binary"),
        ({"type": "string", "not": {}}, "uses not"),
        ({"type": "string", "title": 1}, "a title that is no text"),
        ({"type": "string", "minLength": -1}, "a minLength that is no count"),
        ({"type": "string", "default": 1}, "the default 1"),
        ({"type": "string", "enum": ["a"], "default": "b"}, 'the default "b"'),
        ({"type": "string", "oneOf": TITLED, "default": "Red"}, 'the default "Red"'),
        ({"type": "number", "maximum": "1"}, "a maximum that is no number"),
        ({"type": "integer", "default": 1.5}, "the default 1.5"),
        ({"type": "integer", "default": float("inf")}, "the default"),
        ({"type": "number", "default": True}, "the default true"),
        ({"type": "boolean", "default": 0}, "the default 0"),
    ],
)
def test_a_field_that_no_form_has_is_refused_by_name(field, said):
    with pytest.raises(LocalError) as caught:
        check_form(form({"wrong": field}))
    assert said in str(caught.value)
    assert '"wrong"' in str(caught.value)


@pytest.mark.parametrize(
    "schema",
    [
        None,
        [],
        {"type": "object"},
        {"type": "array", "properties": {}},
        {"type": "object", "properties": []},
        form({}, "unknown"),
        {**form({}), "required": "all"},
        {**form({}), "required": [{}]},
        form({}, allOf=[{}]),
    ],
)
def test_schemas_other_than_flat_objects_are_refused(schema):
    with pytest.raises(LocalError, match="form"):
        check_form(schema)


def test_choices_are_the_values_of_every_kind_of_choice():
    assert choices(FIELDS["untitled"]) == choices(FIELDS["legacy"]) == choices(MULTIPLE["untitled"]) == ["a", "b"]
    assert choices(FIELDS["titled"]) == choices(MULTIPLE["titled"]) == ["#F00", "#0F0"]
    assert choices(FIELDS["text"]) is None
