"""Callables looked at."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from dovetail.protocol.errors import LocalError
from dovetail.server.signatures.hints import REQUIRED, inspect_callable


class Context: ...


class Special(Context): ...


def test_a_signature_is_inspected_completely():
    async def fn(a: int, b="x", *, ctx: Special, c: float | None = None, **rest: str) -> bool:
        """What it does."""
        return True

    shape = inspect_callable(fn, Context)
    assert shape.name.endswith("fn")
    assert [(p.name, p.hint, p.default) for p in shape.parameters] == [
        ("a", int, REQUIRED), ("b", Any, "x"), ("c", float | None, None),
    ]  # fmt: skip
    assert (shape.rest, shape.returns, shape.context_name, shape.is_async) == (str, bool, "ctx", True)
    assert shape.doc == "What it does."
    assert shape.reserved == {"ctx"}


def test_none_as_a_default_allows_none():
    def fn(a: int = None, b: Any = None, c: None = None): ...  # noqa: RUF013  # pyright: ignore[reportArgumentType]

    assert [p.hint for p in inspect_callable(fn, Context).parameters] == [int | None, Any, type(None)]


def test_partials_inside_partials():
    def fn(a: int, b: int, c: int): ...

    shape = inspect_callable(functools.partial(functools.partial(fn, 1), c=3), Context)
    assert [p.name for p in shape.parameters] == ["b"]


def test_annotations_that_hold_forward_references():
    def fn(a, b): ...

    fn.__annotations__ = {"a": list["Context"], "b": "int | None"}
    shape = inspect_callable(fn, str)
    assert [p.hint for p in shape.parameters] == [list[Context], int | None]


def test_a_closure_still_knows_its_names_when_its_scope_is_gone():
    def scope():
        class Inner(Context): ...

        def fn(a: Inner): ...

        return fn, lambda: Inner

    fn, _ = scope()
    # Nobody keeps the name: only the annotation's text is left.
    with pytest.raises(LocalError, match="its names must exist when the function is registered"):
        inspect_callable(fn, int)


def test_an_annotation_that_is_no_expression():
    def fn(a): ...

    fn.__annotations__ = {"a": "1 +"}
    with pytest.raises(LocalError, match=r"the annotation of a cannot be read|annotation '1 \+' of a cannot"):
        inspect_callable(fn, Context)


def test_builtins_without_a_signature():
    with pytest.raises(LocalError, match=r"has no signature that can be read|by position only"):
        inspect_callable(dict.get, Context)
