"""Whether msgspec takes a type."""

from __future__ import annotations

from typing import Annotated

import msgspec
import pytest

from dovetail.schema.hints.type_support import check_convertible, hint_name, is_convertible


def test_probe_raises_for_what_is_never_converted():
    check_convertible(int)
    with pytest.raises(TypeError):
        check_convertible(list[int] | set[int])


def test_msgspec_support_of_a_type_is_detected():
    assert is_convertible(list[int])
    assert not is_convertible(Annotated[list[int], msgspec.Meta(ge=1)])


def test_names_are_as_written():
    assert hint_name(int) == "int"
    assert hint_name(list[int]) == "list[int]"
