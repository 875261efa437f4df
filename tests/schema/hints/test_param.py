"""What is said about a parameter inside Annotated."""

from __future__ import annotations

from typing import Annotated

import annotated_types
import msgspec
from typing_extensions import Doc

from dovetail.schema.hints.param import Param, header_of, merge_metadata


def test_limits_and_notes_are_what_was_given():
    param = Param("what", title="T", ge=0, pattern="a", examples=(1,), extra={"format": "uri"})
    assert param.limits() == {"ge": 0, "pattern": "a"}
    assert param.notes() == {"title": "T", "description": "what", "examples": [1], "format": "uri"}
    assert Param().limits() == Param().notes() == {}


def test_repr_names_what_was_given():
    assert repr(Param("what", ge=1)) == "Param(description='what', ge=1)"


def test_later_metadata_takes_precedence():
    said = merge_metadata(["first", Param("second", ge=1), Param(ge=2)])
    assert (said.description, said.ge) == ("second", 2)


def test_other_libraries_remarks_are_understood():
    said = merge_metadata(
        [
            msgspec.Meta(title="T", max_length=3, extra_json_schema={"format": "x"}),
            annotated_types.Interval(gt=1, le=9),
            annotated_types.MinLen(2),
            annotated_types.MultipleOf(3),
            Doc("documented"),
            object(),
        ]
    )
    assert said.limits() == {"gt": 1, "le": 9, "multiple_of": 3, "min_length": 2, "max_length": 3}
    assert said.notes() == {"title": "T", "description": "documented", "format": "x"}


def test_the_header_of_a_hint_is_found():
    assert header_of(Annotated[str, Param(header="A"), Param(header="B"), Param()]) == "B"
    assert header_of(Annotated[str, "x"]) is None
    assert header_of(str) is None
