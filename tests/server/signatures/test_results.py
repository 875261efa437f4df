"""Results: the promise and the check."""

from __future__ import annotations

import math
import pathlib
from dataclasses import dataclass
from typing import Any

import pydantic
import pytest

from dovetail.protocol.errors import LocalError
from dovetail.server.signatures.binding import BadResult
from dovetail.server.signatures.results import by_schema, data_hint, json_builtins, schema_and_check
from dovetail.types.client_features import InputRequired
from dovetail.types.content import Text


@dataclass
class Reading:
    value: float
    unit: str = "C"


class Model(pydantic.BaseModel):
    name: str


@pytest.mark.parametrize(
    ("hint", "good", "bad"),
    [
        (str, ["", "a"], [1, ["a"], None]),
        (int, [1, -1, 1.0], [True, 1.5, "1"]),
        (float, [1, 1.5], [True, "1", math.nan, math.inf]),
        (bool, [True], [1, None]),
        (None, [None], [0, False]),
    ],
)
def test_primitives_are_checked_exactly(hint, good, bad):
    _, check = schema_and_check(hint)
    for value in good:
        assert check(value) == value
    for value in bad:
        with pytest.raises(BadResult):
            check(value)


def test_fields_are_checked_though_python_does_not():
    schema, check = schema_and_check(Reading)
    assert schema["required"] == ["value"]
    assert check(Reading(1.5)) == {"value": 1.5, "unit": "C"}
    assert check({"value": 1}) == {"value": 1}
    with pytest.raises(BadResult, match="value: must be of type number, not the string"):
        check(Reading("hot"))  # pyright: ignore[reportArgumentType]
    with pytest.raises(BadResult, match="value: must be of type number, not null"):
        check(Reading(math.nan))


def test_results_that_json_cannot_represent_are_refused():
    _, check = schema_and_check(list[Any])
    with pytest.raises(BadResult, match="cannot be written as JSON"):
        check([object()])
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(BadResult):
        check(loop)


def test_plain_knows_what_people_return():
    assert json_builtins({"m": Model(name="a"), "p": pathlib.PurePosixPath("a/b"), "t": (1, 2), 3: {4}}) == {
        "m": {"name": "a"}, "p": "a/b", "t": [1, 2], "3": [4],
    }  # fmt: skip


def test_a_model_is_checked_by_pydantic():
    schema, check = schema_and_check(list[Model])
    assert schema["items"] == {"$ref": "#/$defs/Model"}
    assert check([Model(name="a"), {"name": "b"}]) == [{"name": "a"}, {"name": "b"}]
    with pytest.raises(BadResult, match="name"):
        check([{}])


def test_results_are_checked_against_a_schema_by_hand():
    check = by_schema({"type": "array", "items": {"type": "integer"}})
    assert check((1, 2)) == [1, 2]
    with pytest.raises(BadResult, match=r"\[0\]: must be of type integer"):
        check(["a"])
    with pytest.raises(LocalError):
        by_schema({"type": "int"})


def test_the_data_part_of_a_return_hint():
    assert data_hint(str | InputRequired) is str
    assert data_hint(str | None | InputRequired) == (str | None)
    assert data_hint(str | Text) is Any
    assert data_hint(dict[str, list[Text]]) is Any
    assert data_hint(InputRequired | Text) is Any
    assert data_hint(None) is None
