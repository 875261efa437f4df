"""Binding: the fast path, the slow path and what lies between."""

from __future__ import annotations

import time
from typing import Annotated, Any

import pytest

from dovetail.server.signatures.binding import BadArguments, without_properties
from dovetail.server.signatures.signature import Param, tool_binding


class Context: ...


def bound(fn):
    return tool_binding(fn, context_type=Context)


def test_integral_floats_are_integers_everywhere():
    def fn(a: list[int], b: dict[str, tuple[int, float]], c: Any = None): ...

    assert bound(fn).bind({"a": [1.0], "b": {"x": [2.0, 3.0]}}) == {"a": [1], "b": {"x": (2, 3.0)}, "c": None}


def test_a_float_that_may_stand_for_another_integer_is_refused_as_an_integer():
    def fn(a: int, b: float = 0): ...

    assert bound(fn).bind({"a": 2.0**53 - 1, "b": 1e300}) == {"a": 2**53 - 1, "b": 1e300}
    for inexact in (2.0**53, -(2.0**53), 1e300):
        with pytest.raises(BadArguments, match="a: expected int, got float"):
            bound(fn).bind({"a": inexact})


def test_arguments_nested_too_deeply_are_a_problem_not_a_crash():
    def fn(a: int, b: Any): ...

    deep: Any = 1
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(BadArguments, match="nested too deeply"):
        bound(fn).bind({"a": 1.0, "b": deep})


def test_the_arguments_are_left_as_they_were():
    def fn(a: int, b: Any = None): ...

    arguments = {"a": 1.0, "b": [2.0]}
    bound(fn).bind(arguments)
    assert arguments == {"a": 1.0, "b": [2.0]}


def test_problems_that_only_msgspec_finds_are_listed_too():
    from datetime import date

    def fn(day: date): ...

    with pytest.raises(BadArguments, match="day: invalid"):
        bound(fn).bind({"day": "tomorrow"})


def test_without_takes_anything_under_the_names():
    schema = {"type": "object", "properties": {"a": {"type": "string"}, "b": {}}}
    assert without_properties(schema, {}) is schema
    assert without_properties(schema, {"a": 1})["properties"] == {"a": True, "b": {}}


def test_a_huge_wrong_argument_is_refused_quickly_and_still_named():
    def fn(a: list[int] | None): ...

    binding = bound(fn)
    start = time.process_time()
    with pytest.raises(BadArguments) as caught:
        binding.bind({"a": ["x"] * 300_000})
    assert caught.value.problems == ["a[0]: expected int, got str"]
    assert time.process_time() - start < 2


def test_an_evil_string_meets_an_evil_pattern():
    def fn(a: Annotated[str, Param(pattern="^(a+)+$")]): ...

    binding = bound(fn)
    start = time.process_time()
    with pytest.raises(BadArguments, match="must match the pattern") as caught:
        binding.bind({"a": "a" * 5_000 + "b"})
    assert len(str(caught.value)) < 200
    assert time.process_time() - start < 2


def test_many_unknown_names_are_cut():
    def fn(): ...

    with pytest.raises(BadArguments) as caught:
        bound(fn).bind({str(i) * 100: 1 for i in range(1000)})
    assert len(str(caught.value)) < 5000


@pytest.mark.parametrize("name", ["self", "cls", "name", "rename", "_x", "fields", "from_", "class_"])
def test_any_name_may_be_a_parameter(name):
    scope: dict[str, Any] = {}
    exec(f"def fn({name}: int = 1): ...", scope)
    assert bound(scope["fn"]).bind({name: 2}) == {name: 2}
    assert bound(scope["fn"]).bind({}) == {name: 1}
