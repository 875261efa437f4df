"""Pydantic, only where it is used."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import pydantic
import pytest

from dovetail.schema.hints.pydantic_models import PydanticType, contains_pydantic, dump_any, field_default


class Person(pydantic.BaseModel):
    name: str
    age: int = 0


@dataclass
class Deep:
    people: list[Person]


class Loop(NamedTuple):
    loop: list[Loop] | None


@pytest.mark.parametrize(
    "hint",
    [
        Person, list[Person], Person | None, Deep, dict[str, Deep], Annotated[int, pydantic.Field(ge=1)],
        pydantic.SecretStr, Annotated[str, pydantic.AfterValidator(str.lower)],
    ],
)  # fmt: skip
def test_hints_with_pydantic_types_are_read_by_pydantic(hint):
    assert contains_pydantic(hint)


@pytest.mark.parametrize("hint", [int, list[int], Loop, Annotated[int, "x"], "text", None, int | str])
def test_hints_without_pydantic_types_are_not_read_by_pydantic(hint):
    assert not contains_pydantic(hint)


def test_problems_have_paths():
    assert PydanticType(list[Person]).problems([{"name": 1}]) == [((0, "name"), "Input should be a valid string")]
    assert PydanticType(Person).problems({"name": "a"}) == []


def test_strings_may_hold_json():
    assert PydanticType(Person).load_text('{"name": "a"}') == Person(name="a")
    assert PydanticType(Annotated[int, pydantic.Field(ge=1)]).load_text("5") == 5
    with pytest.raises(ValueError, match="JSON"):
        PydanticType(Person).load_text("no")


def test_a_spoilt_model_is_not_written():
    person = Person(name="a")
    person.age = "old"  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(ValueError, match="age"):
        PydanticType(Person).dump(person)


def test_any_model_is_dumped_as_json_builtins():
    assert dump_any(Person(name="a")) == {"name": "a", "age": 0}
    with pytest.raises(TypeError, match="object cannot be converted to JSON"):
        dump_any(object())


def test_pydantic_fields_as_defaults_are_understood():
    field = pydantic.Field(3)
    assert field_default(field) == (field, 3)
    assert field_default(required := pydantic.Field()) == (required, ...)
    assert field_default(made := pydantic.Field(default_factory=list)) == (made, [])
    assert field_default(3) is None


def test_pydantic_and_the_validator_stay_out_of_a_program_that_does_without():
    program = (
        "import sys\n"
        "from dovetail.server.signatures.signature import tool_binding\n"
        "def add(a: int, b: list[str] | None = None) -> dict[str, int]: ...\n"
        "binding = tool_binding(add, context_type=type('C', (), {}))\n"
        "binding.bind({'a': 1}), binding.check_result({'a': 1})\n"
        "heavy = {'pydantic', 'jsonschema_rs', 'dataclasses', 'json', 'hashlib', 'attr'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
