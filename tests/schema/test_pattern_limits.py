"""Limits of the patterns of a schema, tested with values."""

import time
from typing import Any

import pytest

from dovetail.protocol.errors import LocalError
from dovetail.schema.forms import read_form
from dovetail.schema.pattern_limits import (
    MAX_COMPILED_BYTES,
    MAX_COMPILED_BYTES_EACH,
    MAX_PATTERN_CHARACTERS,
    MAX_PATTERNS,
    compiled_size_limit,
)
from dovetail.schema.validation import compile_schema


def with_patterns(*patterns: str) -> dict[str, Any]:
    return {"properties": {f"p{index}": {"pattern": pattern} for index, pattern in enumerate(patterns)}}


def test_a_schema_without_patterns_has_the_limit_of_one():
    assert compiled_size_limit({"type": "object"}) == MAX_COMPILED_BYTES_EACH


def test_the_patterns_of_a_schema_share_the_size():
    assert compiled_size_limit(with_patterns(*map(str, range(50)))) == MAX_COMPILED_BYTES // 50


def test_equal_patterns_count_once():
    assert compiled_size_limit(with_patterns(*["^a$"] * 500)) == MAX_COMPILED_BYTES_EACH


def test_names_of_properties_given_as_patterns_count():
    schema = {"patternProperties": {f"^{index}$": {} for index in range(MAX_PATTERNS + 1)}}
    with pytest.raises(LocalError, match=f"101 different patterns; at most {MAX_PATTERNS}"):
        compiled_size_limit(schema)


def test_a_property_with_the_name_pattern_is_no_pattern():
    assert compiled_size_limit({"properties": {"pattern": {"type": "string"}}}) == MAX_COMPILED_BYTES_EACH


def test_patterns_in_all_parts_of_a_schema_count():
    nested = {"allOf": [{"items": {"$defs": {"a": with_patterns(*map(str, range(101)))}}}]}
    with pytest.raises(LocalError, match="101 different patterns"):
        compiled_size_limit(nested)


def test_the_characters_of_all_patterns_are_limited():
    with pytest.raises(LocalError, match=f"at most {MAX_PATTERN_CHARACTERS} are allowed"):
        compiled_size_limit(with_patterns("a" * 6000, "b" * 6000))


@pytest.mark.parametrize(
    "pattern",
    [
        r"^[a-z0-9-]{1,64}$",
        r"^.{1,1000}$",
        r"^\S{1,255}$",
        r"^\p{L}{1,40}$",
        r"^[\w.+-]+@[\w-]+(\.[\w-]+)+$",
        r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})$",
        r"^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-((?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*)?$",
        r"^((25[0-5]|(2[0-4]|1\d|[1-9]|)\d)\.?\b){4}$",
    ],
)
def test_usual_patterns_compile(pattern: str):
    compile_schema(with_patterns(pattern))


def test_fifty_usual_patterns_in_one_schema_compile():
    compile_schema(with_patterns(*(rf"^[A-Z]{{2,10}}-\d{{1,{index}}}$" for index in range(1, 51))))


@pytest.mark.attack("H3")
@pytest.mark.parametrize(
    ("patterns", "limit"),
    [
        ([r"\p{L}{195}x" + str(index) for index in range(150)], "150 different patterns"),
        ([r"\p{L}{195}x" + str(index) for index in range(100)], "compiles to at most 80000 bytes"),
        ([r"\p{L}{195}"], "compiles to at most 2000000 bytes"),
        (["(?i)" + "|".join(rf"\w{index}" for index in range(800))], "escapes"),
    ],
    ids=["many", "many large", "one large", "many escapes"],
)
def test_a_schema_bomb_is_refused_at_once_with_the_limit(patterns: list[str], limit: str):
    compile_schema({})  # loads the engine
    began = time.process_time()
    with pytest.raises(LocalError, match=limit):
        compile_schema(with_patterns(*patterns))
    assert time.process_time() - began < 0.3


@pytest.mark.attack("H3")
def test_a_form_drops_patterns_that_are_too_large_and_keeps_its_other_checks():
    field = {"type": "string", "pattern": r"\p{L}{195}", "maxLength": 3}
    form = read_form({"type": "object", "properties": {"a": field}})
    assert form.problems({"a": "abc"}) == []
    assert form.problems({"a": "abcd"}) != []
