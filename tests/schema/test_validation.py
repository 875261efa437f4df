"""JSON Schema as a check: dialects, no network, linear patterns, bounded work."""

from __future__ import annotations

import socket
import time

import pytest

from dovetail.protocol.errors import LocalError
from dovetail.schema.validation import TOO_LARGE, compile_schema


@pytest.mark.parametrize(
    "name",
    [
        None,
        "https://json-schema.org/draft/2020-12/schema",
        "http://json-schema.org/draft/2020-12/schema#",
    ],
)
def test_the_default_dialect_is_2020_12(name):
    schema = {"prefixItems": [{"type": "integer"}]} | ({"$schema": name} if name else {})
    assert not compile_schema(schema).is_valid(["a"])


@pytest.mark.parametrize("ending", ["", "#"])
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_draft_7_schemas_are_supported(scheme, ending):
    schema = {
        "$schema": f"{scheme}://json-schema.org/draft-07/schema{ending}",
        "items": [{"type": "integer"}],
    }
    assert not compile_schema(schema).is_valid(["a"])
    assert compile_schema(schema).is_valid([1, "a"])


@pytest.mark.parametrize(
    "name", ["http://json-schema.org/draft-04/schema#", "urn:x", "json-schema.org/draft-07/schema", 7, ["a"]]
)
def test_another_dialect_is_refused_by_name(name):
    with pytest.raises(LocalError, match=r"dialect .* is not supported"):
        compile_schema({"$schema": name})


@pytest.mark.parametrize(
    "ref", ["http://127.0.0.1:{port}/x", "https://127.0.0.1:{port}/x", "file:///etc/passwd", "x.json"]
)
def test_references_are_never_fetched(ref):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        port = listener.getsockname()[1]
        for schema in (
            {"$ref": ref.format(port=port)},
            {"properties": {"a": {"$dynamicRef": ref.format(port=port)}}},
            {"$id": "http://127.0.0.1/", "items": {"$ref": ref.format(port=port)}},
        ):
            with pytest.raises(LocalError, match=r"outside itself|cannot be used"):
                compile_schema(schema)
        with pytest.raises(BlockingIOError):
            listener.accept()


def test_references_inside_the_document_work():
    schema = {
        "$id": "https://example.com/root.json",
        "properties": {
            "a": {"$ref": "#/$defs/n"}, "b": {"$ref": "item.json"}, "c": {"$ref": "#here"},
            "d": {"$ref": "item.json#/$defs/s"},
        },
        "$defs": {
            "n": {"type": "integer", "$anchor": "here"},
            "i": {"$id": "item.json", "type": "string", "$defs": {"s": {"type": "null"}}},
        },
    }  # fmt: skip
    check = compile_schema(schema)
    assert check.is_valid({"a": 1, "b": "x", "c": 2, "d": None})
    for name in "abcd":
        assert not check.is_valid({name: 1.5})


@pytest.mark.parametrize("keyword", ["pattern", "patternProperties"])
def test_a_catastrophic_pattern_takes_linear_time(keyword):
    evil = "^(a+)+$"
    schema = {"pattern": evil} if keyword == "pattern" else {"patternProperties": {evil: False}}
    check = compile_schema(schema)
    text = "a" * 100_000 + "b"
    start = time.process_time()
    check.is_valid(text if keyword == "pattern" else {text: 1})
    # A backtracking engine would need 2**100000 steps.
    assert time.process_time() - start < 2


@pytest.mark.parametrize("pattern", ["(?=a)b", "(a)\\1", "(?<!a)b", "(", "a{1000}{1000}{1000}"])
def test_patterns_that_cannot_be_linear_are_refused(pattern):
    with pytest.raises(LocalError, match="cannot be used"):
        compile_schema({"pattern": pattern})


def test_a_schema_that_is_wrong_says_where():
    with pytest.raises(LocalError, match=r"the schema cannot be used: .* \(at properties/a/type\)"):
        compile_schema({"properties": {"a": {"type": "int"}}})


def test_problems_are_listed_up_to_a_bound():
    check = compile_schema({"items": {"type": "integer"}})
    assert check.problems([1, 2]) == []
    assert check.problems(["a", 1]) == ['[0]: must be of type integer, not the string "a"']
    many = check.problems(["a"] * 100)
    assert len(many) == 21
    assert many[-1] == "there are more problems than these"


def test_a_huge_bad_value_is_refused_quickly():
    check = compile_schema({"anyOf": [{"items": {"type": "integer"}, "type": "array"}, {"type": "null"}]})
    value = ["a"] * 500_000
    start = time.process_time()
    assert check.problems(value) == [TOO_LARGE]
    assert time.process_time() - start < 1


def test_a_format_is_a_remark_unless_asked_for():
    schema = {"type": "string", "format": "email"}
    assert compile_schema(schema).is_valid("nobody")
    assert compile_schema(schema, formats=True).problems("nobody") == ['must be a valid email, not "nobody"']
