"""Conversion of JSON values: to every kind of class, with every problem and its place."""

import functools
from collections.abc import Awaitable, Coroutine
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any, TypedDict

import attrs
import msgspec
import pydantic
import pytest

from dovetail import LocalError, Param
from dovetail.schema.hints.conversion import converter_for, return_hint


@dataclass
class Book:
    title: str
    year: int


class BookDict(TypedDict):
    title: str
    year: int


class BookStruct(msgspec.Struct):
    title: str
    year: int


@attrs.define
class BookAttrs:
    title: str
    year: int


class BookModel(pydantic.BaseModel):
    title: str
    year: int


JSON = {"title": "Emma", "year": 1815}
KINDS: list[Any] = [Book, BookStruct, BookAttrs]


@pytest.mark.parametrize("kind", KINDS)
def test_an_object_becomes_an_instance(kind: Any):
    assert converter_for(kind).convert(JSON) == kind("Emma", 1815)
    assert converter_for(list[kind]).convert([JSON]) == [kind("Emma", 1815)]
    assert converter_for(dict[str, kind] | None).convert({"a": JSON}) == {"a": kind("Emma", 1815)}


def test_a_typed_dict_stays_a_dict_and_a_model_is_made_by_pydantic():
    assert converter_for(BookDict).convert(JSON) == JSON
    assert converter_for(list[BookModel]).convert([JSON]) == [BookModel(title="Emma", year=1815)]


def test_to_json_five_is_an_integer_with_a_point_too():
    assert converter_for(list[Book]).convert([{"title": "Emma", "year": 1815.0}]) == [Book("Emma", 1815)]


def test_plain_hints_are_converted():
    assert converter_for(date).convert("2026-07-28") == date(2026, 7, 28)
    assert converter_for(tuple[int, str]).convert([1, "a"]) == (1, "a")
    assert converter_for(Any).convert({"any": [1]}) == {"any": [1]}


@pytest.mark.parametrize(
    ("hint", "value", "problem"),
    [
        (list[Book], [JSON, {"title": 5, "year": 1}], r"\[1\].title"),
        (Book, {"title": "Emma"}, "year"),
        (BookModel, {"title": "Emma", "year": "soon"}, "year: Input should be a valid integer"),
        (Annotated[str, Param(pattern="^[A-Z]$")], "ab", "must match the pattern"),
        (int, "five", "int"),
    ],
)
def test_what_does_not_fit_is_named_with_its_place(hint: Any, value: Any, problem: str):
    with pytest.raises(ValueError, match=problem):
        converter_for(hint).convert(value)


def test_a_type_without_json_is_refused_by_name():
    with pytest.raises(LocalError, match="JSON cannot be converted to LocalError"):
        converter_for(LocalError)


def test_the_hint_of_a_function_is_that_of_its_result():
    def plain(x: int) -> list[Book]: ...  # type: ignore[empty-body]
    async def coroutine() -> Book: ...  # type: ignore[empty-body]
    def awaitable() -> Awaitable[Book]: ...  # type: ignore[empty-body]
    def started() -> Coroutine[Any, Any, Book]: ...  # type: ignore[empty-body]
    def bare(): ...
    def unresolved() -> "Nowhere": ...  # type: ignore[name-defined]  # noqa: F821

    assert return_hint(plain) == return_hint(functools.partial(plain, 1)) == list[Book]
    assert return_hint(coroutine) is return_hint(awaitable) is return_hint(started) is Book
    assert return_hint(bare) is return_hint(unresolved) is return_hint(len) is Any
