"""Subschemas with their places, and references that lead back to themselves."""

from typing import Any

from dovetail.schema.portability.walk import places, recursive_references


def test_places_are_named_by_the_way_to_them() -> None:
    schema: dict[str, Any] = {
        "properties": {"a": {"type": "array", "items": {"anyOf": [{"properties": {"b": {}}}, {"type": "null"}]}}},
        "$defs": {"Stay": {"properties": {"name": {}}}},
    }
    assert [(place.path, place.levels) for place in places(schema)] == [
        ("", 1),
        ("a", 1),
        ("a[]", 1),
        ("a[]", 2),
        ("a[].b", 2),
        ("a[]", 1),
        ("Stay", 1),
        ("Stay.name", 1),
    ]


def test_a_wide_schema_is_walked_up_to_a_limit() -> None:
    assert len(list(places({"anyOf": [{}] * 50_000}))) == 20_000


def test_recursion_is_found_through_other_definitions() -> None:
    schema: dict[str, Any] = {
        "properties": {"a": {"$ref": "#/$defs/A"}},
        "$defs": {
            "A": {"items": {"$ref": "#/$defs/B"}},
            "B": {"anyOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/C"}]},
            "C": {"type": "string"},
        },
    }
    assert recursive_references(schema) == ["#/$defs/A", "#/$defs/B"]
    assert recursive_references({"properties": {"self": {"$ref": "#"}}}) == ["#"]
    assert recursive_references({"$ref": "https://example.com/x"}) == []
