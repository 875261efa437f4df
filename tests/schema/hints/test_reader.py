"""Hints read into schemas, piece by piece; whole signatures are in test_signature."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Annotated, Any, Generic, Literal, TypeVar

import msgspec
import pytest

from dovetail.schema.hints.param import Param
from dovetail.schema.hints.reader import HintReader
from dovetail.schema.hints.type_support import Unsupported

T = TypeVar("T")


class Page(msgspec.Struct, Generic[T]):
    items: list[T]


def schema(hint, direction: Literal["input", "output"] = "input"):
    return HintReader(direction).read(hint).schema


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        (list[Any], {"type": "array", "items": {}}),
        (Sequence[int], {"type": "array", "items": {"type": "integer"}}),
        (Mapping[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (Mapping, {"type": "object"}),
        (Sequence, {"type": "array", "items": {}}),
        (T, {}),
        (int | Any, {}),
        (None | int, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        (Literal["a"] | None, {"anyOf": [{"type": "string", "enum": ["a"]}, {"type": "null"}]}),
        (list[int | None], {"type": "array", "items": {"anyOf": [{"type": "integer"}, {"type": "null"}]}}),
        (Annotated[int | str, Param(ge=1, max_length=3)],
         {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "maxLength": 3}]}),
        (Annotated[Annotated[int, Param(ge=1)], Param("what", le=2)],
         {"type": "integer", "minimum": 1, "maximum": 2, "description": "what"}),
        (dict[int, Any], {"type": "object", "propertyNames": {"pattern": "^(0|-?[1-9][0-9]*)$"}}),
    ],
)  # fmt: skip
def test_each_hint_has_its_schema(hint, expected):
    assert schema(hint) == expected


def test_decimals_are_read_as_either_and_written_as_strings():
    assert schema(Decimal) == {"anyOf": [{"type": "number"}, {"type": "string"}]}
    assert schema(Decimal, "output") == {"type": "string"}


def test_generic_classes_have_a_schema():
    reader = HintReader("input")
    assert reader.read(Page[int]).schema == {"$ref": "#/$defs/Page_int_"}
    assert reader.definitions.bodies["Page_int_"]["properties"]["items"]["items"] == {"type": "integer"}


def test_patterns_inside_a_struct_are_checked_by_the_schema_first():
    class Inner(msgspec.Struct):
        a: Annotated[str, msgspec.Meta(pattern="^a")]

    assert HintReader("input").read(Inner).needs_schema
    assert not HintReader("input").read(Page[int]).needs_schema


@pytest.mark.parametrize("hint", [type, type[int], Literal[b"a"], object()])
def test_hints_without_a_schema_are_refused(hint):
    with pytest.raises(Unsupported):
        schema(hint)


def test_a_table_entry_is_never_shared():
    HintReader("input").read(str).schema["title"] = "spoilt"
    assert schema(str) == {"type": "string"}
