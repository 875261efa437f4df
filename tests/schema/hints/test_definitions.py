"""Definitions at the root of a document."""

from __future__ import annotations

from dovetail.schema.hints.definitions import Definitions, has_fixed_member, has_string_keyword

A = {"type": "object", "properties": {"b": {"$ref": "#/$defs/B"}}}
B = {"type": "string"}


def test_equal_definitions_are_shared():
    definitions = Definitions()
    for _ in range(2):
        assert definitions.merge({"$ref": "#/$defs/A"}, {"A": A, "B": B}) == {"$ref": "#/$defs/A"}
    assert definitions.bodies == {"A": A, "B": B}


def test_a_name_taken_gets_a_number_and_its_references_follow():
    definitions = Definitions()
    definitions.merge({}, {"B": {"type": "integer"}})
    schema = definitions.merge({"anyOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B"}]}, {"A": A, "B": B})
    assert schema == {"anyOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B2"}]}
    assert definitions.bodies["A"]["properties"]["b"] == {"$ref": "#/$defs/B2"}
    assert definitions.bodies["B"] == {"type": "integer"}


def test_a_lone_reference_at_the_root_is_resolved():
    definitions = Definitions()
    schema = definitions.merge({"$ref": "#/$defs/A", "description": "d"}, {"A": A, "B": B})
    assert definitions.resolve(schema) == A
    assert definitions.rooted(schema) == {**A, "description": "d", "$defs": {"B": B}}


def test_a_recursive_definition_stays():
    body = {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}}
    definitions = Definitions()
    schema = definitions.merge({"$ref": "#/$defs/A"}, {"A": body})
    assert definitions.rooted(schema) == {**body, "$defs": {"A": body}}


def test_without_definitions_a_schema_is_left_alone():
    assert Definitions().rooted(B) is B
    assert Definitions().resolve(B) is B


def test_mentions_looks_everywhere():
    assert has_string_keyword({"a": [{"pattern": "x"}]}, "pattern")
    assert not has_string_keyword({"properties": {"pattern": {}}}, "pattern")


def test_a_member_with_one_possible_value_is_found() -> None:
    tagged = {"type": "object", "properties": {"kind": {"enum": ["a"]}}}
    assert has_fixed_member({"$defs": {"Tagged": tagged}})
    assert has_fixed_member({"const": 1})
    assert not has_fixed_member({"enum": ["a", "b"]})
