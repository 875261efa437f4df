"""Fields of a form: what a person sees, and what they type."""

from typing import Any

import pytest

from dovetail.cli.terminal.fields import FormField, form_fields

COLOURS = {"type": "string", "oneOf": [{"const": "r", "title": "Red"}, {"const": "2", "title": "Blue"}]}
SEVERAL = {"type": "array", "items": {"enum": ["a", "b", "c"], "type": "string"}, "maxItems": 2}
LEGACY = {"type": "string", "enum": ["s", "m"], "enumNames": ["Small", "Medium"]}


def field(schema: dict[str, Any], *, required: bool = True) -> FormField:
    return FormField("x", schema, required=required)


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({"type": "string"}, "hi", "hi"),
        ({"type": "integer"}, "7", 7),
        ({"type": "integer"}, "7.0", 7),
        ({"type": "number"}, "7.5", 7.5),
        ({"type": "boolean"}, "Y", True),
        ({"type": "boolean"}, "off", False),
        ({"type": "string", "format": "date"}, "2026-01-31", "2026-01-31"),
        (COLOURS, "1", "r"),
        (COLOURS, "red", "r"),
        (COLOURS, "2", "2"),
        (COLOURS, "Blue", "2"),
        (LEGACY, "medium", "m"),
        (LEGACY, "1", "s"),
        (SEVERAL, "a, 3", ["a", "c"]),
        (SEVERAL, ",", []),
    ],
)
def test_what_is_typed_becomes_a_value(schema: dict[str, Any], text: str, value: Any) -> None:
    assert field(schema).read(text) == value


@pytest.mark.parametrize(
    ("schema", "text", "complaint"),
    [
        ({"type": "integer"}, "7.5", "enter a whole number"),
        ({"type": "number"}, "inf", "enter a number"),
        ({"type": "boolean"}, "perhaps", "yes or no"),
        ({"type": "string", "format": "email"}, "me", "email"),
        ({"type": "string", "minLength": 3}, "ab", "at least 3"),
        ({"type": "integer", "maximum": 5}, "6", "at most 5"),
        (COLOURS, "3", "is not one of the choices"),
        (SEVERAL, "a,b,c", "at most 2"),
        (SEVERAL, "a,z", "'z' is not one of the choices"),
    ],
)
def test_what_does_not_fit_is_said(schema: dict[str, Any], text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        field(schema).read(text)


def test_prompts_say_what_is_wanted() -> None:
    assert field({"type": "string", "title": "Name"}).prompt(None) == "Name: "
    assert field({"type": "string"}, required=False).prompt(None) == "x (optional): "
    assert field({"type": "string", "format": "date"}).prompt("2026-01-31") == "x (YYYY-MM-DD) [2026-01-31]: "
    assert field({"type": "boolean"}).prompt(False) == "x (yes/no) [no]: "
    assert field(COLOURS).prompt(None) == "x (1-2): "
    assert field(SEVERAL).prompt(["a", "b"]) == "x (several, with commas) [a, b]: "


def test_introductions_name_the_choices() -> None:
    assert field({**COLOURS, "description": "Which?"}).introduction() == ["  Which?", "  1) Red (r)", "  2) Blue (2)"]
    assert field(SEVERAL).introduction() == ["  1) a", "  2) b", "  3) c"]
    assert field({"type": "string"}).introduction() == []


def test_a_form_that_is_none_has_no_fields() -> None:
    assert form_fields({"type": "object", "properties": {"x": {"type": "object"}}}) is None
    assert form_fields({"type": "object", "properties": {}}) == []
