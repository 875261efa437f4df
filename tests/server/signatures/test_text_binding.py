"""Arguments that travel as strings."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Literal

import pydantic
import pytest

from dovetail.protocol.errors import LocalError
from dovetail.server.signatures.signature import BadArguments, Param, prompt_binding


class Context: ...


class Color(enum.Enum):
    RED = "red"


@dataclass
class Point:
    x: int


class Model(pydantic.BaseModel):
    x: int


def filled(hint, text):
    def fn(x): ...

    fn.__annotations__ = {"x": hint}
    return prompt_binding(fn, Context).bind({"x": text})["x"]


@pytest.mark.parametrize(
    ("hint", "text", "value"),
    [
        (str, "5", "5"),
        (int, "5", 5),
        (float, "1.5", 1.5),
        (bool, "true", True),
        (bool, "0", False),
        (int | None, "5", 5),
        (int | None, "null", None),
        (str | None, "a", "a"),
        (Color, "red", Color.RED),
        (Literal["a", "b"], "a", "a"),
        (date, "2026-01-02", date(2026, 1, 2)),
        (list[int], "[1, 2]", [1, 2]),
        (list[str], ["a", "b"], ["a", "b"]),
        (dict[str, int], '{"a": 1}', {"a": 1}),
        (Point, '{"x": 1}', Point(1)),
        (Point | None, "null", None),
        (Model, '{"x": 1}', Model(x=1)),
        (Annotated[int, pydantic.Field(ge=1)], "5", 5),
        (Annotated[str, Param(pattern="^a+$")], "aa", "aa"),
        (Annotated[int, Param(ge=3)], "3", 3),
    ],
)
def test_strings_become_what_the_hint_says(hint, text, value):
    assert filled(hint, text) == value


@pytest.mark.parametrize(
    ("hint", "text", "said"),
    [
        (int, "five", "x: expected int, got str"),
        (str, 5, "x: expected str, got int"),
        (list[int], "1,2", "x: expected array, got str"),
        (Point, "{}", "x: object missing required field x"),
        (Model, "{}", "x: .*Field required"),
        (Annotated[str, Param(pattern="^a+$")], "b", 'x: must match the pattern ^a+$, not "b"'),
        (Annotated[int, Param(ge=3)], "2", "x: expected int >= 3"),
    ],
)
def test_strings_that_do_not_fit(hint, text, said):
    with pytest.raises(BadArguments) as caught:
        filled(hint, text)
    assert said.replace(".*", "") in str(caught.value) or said.split(".*")[-1] in str(caught.value)


def test_every_problem_is_listed():
    def fn(a: int, b: str): ...

    with pytest.raises(BadArguments) as caught:
        prompt_binding(fn, Context).bind({"a": "x", "c": "y"})
    assert caught.value.problems == [
        "a: expected int, got str",
        "unknown argument 'c'; the arguments are: a, b",
        "the required argument 'b' is missing",
    ]


def test_a_field_left_empty_means_the_default():
    def fn(a: int = 3, b: str = "x"): ...

    assert prompt_binding(fn, Context).bind({"a": "", "b": ""}) == {"b": ""}


def test_kwargs_take_the_rest_but_not_the_context():
    def fn(ctx: Context, **rest: str): ...

    assert prompt_binding(fn, Context).bind({"a": "b"}) == {"a": "b"}
    with pytest.raises(BadArguments, match="unknown argument 'ctx'"):
        prompt_binding(fn, Context).bind({"ctx": "b"})


def test_bad_patterns_fail_at_registration():
    def fn(a: Annotated[str, Param(pattern="(?=a)")]): ...

    with pytest.raises(LocalError, match="lookaround"):
        prompt_binding(fn, Context)
