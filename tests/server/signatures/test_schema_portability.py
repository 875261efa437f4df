"""Schemas of tools have the form that other implementations send, so that every client and model API accepts them."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pydantic
import pytest

from dovetail.server.signatures.signature import BadArguments, BadResult
from tests.server.signatures.hint_samples import HINTS, NAMES, bound, giving, taking

SUBSCHEMA = ("items", "contains", "propertyNames", "not")
SUBSCHEMAS = ("anyOf", "allOf", "oneOf", "prefixItems")
NAMED_SUBSCHEMAS = ("properties", "$defs", "patternProperties")


def subschemas(schema: Any) -> Iterator[Any]:
    """The schema and every schema inside it."""
    yield schema
    if not isinstance(schema, dict):
        return
    inner = [schema[key] for key in SUBSCHEMA if key in schema]
    inner += [part for key in SUBSCHEMAS for part in schema.get(key, ())]
    inner += [part for key in NAMED_SUBSCHEMAS for part in schema.get(key, {}).values()]
    if isinstance(schema.get("additionalProperties"), dict):
        inner.append(schema["additionalProperties"])
    for part in inner:
        yield from subschemas(part)


def check_portable(document: dict[str, Any]) -> None:
    """Assert what clients take for granted without looking."""
    for schema in subschemas(document):
        assert isinstance(schema, dict), f"{schema} is no object: clients call .get() on it"
        assert not isinstance(schema.get("type"), list), f"{schema} has a list of types: use anyOf"
        if schema.get("type") == "array":
            assert "items" in schema or "prefixItems" in schema or schema.get("maxItems") == 0, schema
        if "required" in schema:
            assert schema["required"], f"{schema} requires nothing"
            assert set(schema["required"]) <= set(schema["properties"])
        if "$ref" in schema:
            name = schema["$ref"].removeprefix("#/$defs/")
            assert name in document["$defs"], schema["$ref"]


@pytest.mark.parametrize("hint", [hint for hint, _, _ in HINTS], ids=NAMES)
def test_the_input_schema_of_every_hint_is_portable(hint: Any) -> None:
    schema = taking(hint).input_schema
    assert schema["type"] == "object"
    assert list(schema["properties"]) == ["x"]
    check_portable(schema)


@pytest.mark.parametrize("hint", [hint for hint, _, _ in HINTS], ids=NAMES)
def test_the_output_schema_of_every_hint_is_portable(hint: Any) -> None:
    schema = giving(hint).output_schema
    if schema is not None:
        check_portable(schema)


COMPARED = ("items", "properties", "anyOf", "prefixItems", "required", "additionalProperties")


@pytest.mark.parametrize("hint", [hint for hint, _, _ in HINTS], ids=NAMES)
def test_an_input_schema_has_the_keywords_that_pydantic_writes(hint: Any) -> None:
    """`mcp` and FastMCP make their schemas with pydantic, so that their clients have met its keywords only."""
    try:
        theirs = pydantic.TypeAdapter(hint).json_schema()
    except pydantic.PydanticUserError:
        pytest.skip("pydantic has no schema for it")
    ours = taking(hint).input_schema
    ours = {**ours["properties"]["x"], "$defs": ours.get("$defs", {})}
    for ref in (ours, theirs):
        if "$ref" in ref:
            ref |= ref["$defs"][ref["$ref"].removeprefix("#/$defs/")]
    expected = {key for key in COMPARED if key in theirs}
    if theirs.get("additionalProperties") is True:
        expected.discard("additionalProperties")  # which is the default
    assert expected <= ours.keys(), (ours, theirs)


def test_a_tool_without_arguments_has_an_empty_object_of_properties() -> None:
    def now() -> str: ...

    assert bound(now).input_schema == {"type": "object", "properties": {}, "additionalProperties": False}
    with pytest.raises(BadArguments, match='unknown argument "zone"; there are no arguments'):
        bound(now).bind({"zone": "UTC"})


@pytest.mark.parametrize("written", [{"type": "object"}, {"type": "object", "additionalProperties": False}])
def test_properties_are_added_to_a_schema_written_by_hand(written: dict[str, Any]) -> None:
    def raw(arguments: dict[str, Any]) -> str: ...

    binding = bound(raw, input_schema=written)
    assert binding.input_schema == {**written, "properties": {}}
    assert "properties" not in written


def test_a_decimal_is_a_choice_of_two_types() -> None:
    assert taking(Decimal).input_schema["properties"]["x"] == {"anyOf": [{"type": "number"}, {"type": "string"}]}
    nullable = taking(Decimal | None).input_schema["properties"]["x"]
    assert nullable == {"anyOf": [{"type": "number"}, {"type": "string"}, {"type": "null"}]}


def test_a_tool_that_returns_nothing_has_no_output_schema() -> None:
    binding = giving(None)
    assert binding.output_schema is None
    assert binding.check_result(None) is None


def test_a_value_where_nothing_was_declared_is_refused() -> None:
    with pytest.raises(BadResult, match="-> None"):
        giving(None).check_result(5)
