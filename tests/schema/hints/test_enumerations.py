"""Hints that list their values."""

from __future__ import annotations

import enum
from typing import Literal

import msgspec
import pytest

from dovetail.schema.hints.enumerations import read_enum, read_literal
from dovetail.schema.hints.opaque_types import decode
from dovetail.schema.hints.type_support import Unsupported


class Word(str):
    __slots__ = ()


class Odd(enum.Enum):
    A = 1.5
    B = Word("b")


def test_one_type_is_named_several_are_not():
    assert read_literal(Literal["a", "b"], ("a", "b")).schema == {"type": "string", "enum": ["a", "b"]}
    assert read_literal(Literal["a", None], ("a", None)).schema == {"enum": ["a", None]}  # noqa: PYI061


def test_values_msgspec_does_not_know():
    reading = read_enum(Odd)
    assert reading.schema == {"title": "Odd", "enum": [1.5, "b"]}
    assert msgspec.convert(1.5, reading.wire, dec_hook=decode) is Odd.A
    with pytest.raises(msgspec.ValidationError, match=r"Expected one of 1.5, 'b'"):
        msgspec.convert([], reading.wire, dec_hook=decode)


def test_an_empty_enumeration_is_refused():
    with pytest.raises(Unsupported):
        read_enum(enum.Enum("Empty", []))
