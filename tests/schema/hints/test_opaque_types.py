"""Unions that msgspec calls ambiguous."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import pytest

from dovetail.schema.hints.opaque_types import Alternative, decode, is_opaque, opaque, opaque_union


@dataclass
class A:
    a: int = 0


@dataclass
class B:
    b: int = 0


def test_a_stand_in_works_inside_containers():
    kind = opaque(None, lambda value: ("read", value))
    assert is_opaque(kind)
    assert not is_opaque(int)
    assert msgspec.convert({"x": [1]}, dict[str, list[kind]], dec_hook=decode) == {"x": [("read", 1)]}


def test_the_alternative_that_knows_the_keys_wins():
    kind = opaque_union([Alternative(A, frozenset("a")), Alternative(B, frozenset("b"))], "A or B")
    assert msgspec.convert({"b": 1}, kind, dec_hook=decode) == B(1)
    assert msgspec.convert({}, kind, dec_hook=decode) == A()
    assert msgspec.convert({"z": 1}, kind, dec_hook=decode) == A()


def test_a_misfit_says_what_was_expected():
    kind = opaque_union([Alternative(A, frozenset("a"))], "A or B")
    with pytest.raises(msgspec.ValidationError, match="Expected A or B - at"):
        msgspec.convert([3], list[kind], dec_hook=decode)
