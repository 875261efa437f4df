"""Whether msgspec takes a type."""

from __future__ import annotations

from typing import Annotated

import msgspec
import pytest

from dovetail.server.signatures.type_support import accepted, name_of, probe


def test_probe_raises_for_what_is_never_converted():
    probe(int)
    with pytest.raises(TypeError):
        probe(list[int] | set[int])


def test_accepted():
    assert accepted(list[int])
    assert not accepted(Annotated[list[int], msgspec.Meta(ge=1)])


def test_names_are_as_written():
    assert name_of(int) == "int"
    assert name_of(list[int]) == "list[int]"
