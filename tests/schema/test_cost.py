"""Bounds on what a schema may cost."""

from __future__ import annotations

import pytest

from dovetail.protocol.errors import LocalError
from dovetail.schema.cost import count_values, schema_cost


def chain(length, word="allOf"):
    defs = {f"a{i}": {word: [{"$ref": f"#/$defs/a{i + 1}"}, {"$ref": f"#/$defs/a{i + 1}"}]} for i in range(length)}
    return {"$ref": "#/$defs/a0", "$defs": {**defs, f"a{length}": {"type": "integer"}}}


def test_work_of_ordinary_schemas_is_small():
    assert schema_cost({}) == 1
    assert schema_cost({"properties": {"a": {"type": "string"}, "b": {"items": {"type": "string"}}}}) == 3
    assert schema_cost(chain(3)) < 100


@pytest.mark.parametrize("word", ["allOf", "anyOf", "oneOf", "prefixItems"])
def test_references_that_multiply_are_refused(word):
    with pytest.raises(LocalError, match="references multiply"):
        schema_cost(chain(40, word))


def test_work_may_hide_below_properties():
    defs = {f"a{i}": {"properties": {"x": {"allOf": [{"$ref": f"#/$defs/a{i + 1}"}] * 2}}} for i in range(40)}
    with pytest.raises(LocalError, match="references multiply"):
        schema_cost({"$ref": "#/$defs/a0", "$defs": {**defs, "a40": {}}})


def test_recursive_schemas_are_fine():
    tree = {"properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}, "kids": {"items": {"$ref": "#"}}}}
    assert schema_cost(tree) < 20
    json = {"anyOf": [{"type": "string"}, {"items": {"$ref": "#"}}, {"additionalProperties": {"$ref": "#"}}]}
    assert schema_cost(json) < 20


def test_size_depth_and_chains_are_bounded():
    deep: dict = {}
    for _ in range(150):
        deep = {"items": deep}
    with pytest.raises(LocalError, match="nested deeper"):
        schema_cost(deep)
    with pytest.raises(LocalError, match="too large"):
        schema_cost({"properties": {str(i): {"type": "string"} for i in range(30_000)}})
    defs = {f"a{i}": {"$ref": f"#/$defs/a{i + 1}"} for i in range(5000)}
    with pytest.raises(LocalError, match="form a chain"):
        schema_cost({"$ref": "#/$defs/a0", "$defs": {**defs, "a5000": {}}})


def test_references_to_missing_definitions_are_refused():
    with pytest.raises(LocalError, match="refers to nothing"):
        schema_cost({"$ref": "#/$defs/no"})
    with pytest.raises(LocalError, match="outside itself"):
        schema_cost({"$ref": "https://example.com/x"})


def test_pointers_are_decoded():
    assert schema_cost({"$ref": "#/$defs/a~1b%20c/anyOf/0", "$defs": {"a/b c": {"anyOf": [{"type": "null"}]}}}) > 1


def test_the_meta_schemas_are_known():
    assert schema_cost({"$ref": "https://json-schema.org/draft/2020-12/schema"}) == 2


def test_counting_stops_at_the_limit():
    assert count_values({"a": [1, 2], "b": {}}, 100) == 5
    assert count_values([0] * 1_000_000, 10) == 11
