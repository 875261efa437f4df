"""Forms from types: every kind of class, the same form, and back to the type."""

import dataclasses
import enum
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, TypedDict
from uuid import UUID

import attrs
import msgspec
import pydantic
import pytest

from dovetail.protocol.errors import InvalidAnswer, LocalError
from dovetail.protocol.revisions import REVISIONS
from dovetail.schema.forms import fit_form
from dovetail.schema.hints.param import Param
from dovetail.server.mrtr.forms import Email, Url, form_for


class Color(enum.Enum):
    RED = "#F00"
    DARK_BLUE = "#00A"


class Mood(enum.StrEnum):
    GOOD = enum.auto()
    BAD = enum.auto()


class Size(enum.IntEnum):
    SMALL = 1
    LARGE = 2


class Plan(enum.Enum):
    title: str
    FREE = "free", "Costs nothing"
    PRO = "pro", "10 € a month"

    def __new__(cls, value: str, title: str):
        member = object.__new__(cls)
        member._value_ = value
        member.title = title
        return member


COLORS = [{"const": "#F00", "title": "Red"}, {"const": "#00A", "title": "Dark blue"}]
Name = Annotated[str, Param("Your name", title="Name", min_length=2)]


@dataclasses.dataclass
class AsDataclass:
    name: Name
    color: Color = Color.RED
    moods: tuple[Mood, ...] = (Mood.GOOD,)
    age: int | None = None


@attrs.define
class AsAttrs:
    name: Name
    color: Color = Color.RED
    moods: tuple[Mood, ...] = (Mood.GOOD,)
    age: int | None = None


class AsStruct(msgspec.Struct):
    name: Name
    color: Color = Color.RED
    moods: tuple[Mood, ...] = (Mood.GOOD,)
    age: int | None = None


class AsModel(pydantic.BaseModel):
    name: str = pydantic.Field(min_length=2, title="Name", description="Your name")
    color: Color = Color.RED
    moods: tuple[Mood, ...] = pydantic.Field((Mood.GOOD,), title="")
    age: int | None = pydantic.Field(None, title="")


class AsTypedDict(TypedDict):
    name: Name
    color: NotRequired[Color]
    moods: NotRequired[tuple[Mood, ...]]
    age: NotRequired[int | None]


def untitled(schema: dict[str, Any], *words: str) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key not in words}


@pytest.mark.parametrize("kind", [AsDataclass, AsAttrs, AsStruct, AsModel])
def test_every_kind_of_class_gives_the_same_form(kind):
    schema = form_for(kind).schema
    fields = schema["properties"]
    assert schema["required"] == ["name"]
    assert fields["name"] == {"type": "string", "minLength": 2, "title": "Name", "description": "Your name"}
    assert fields["color"] == {"type": "string", "oneOf": COLORS, "default": "#F00"}
    assert untitled(fields["moods"], "title") == {
        "type": "array",
        "items": {"type": "string", "enum": ["good", "bad"]},
        "default": ["good"],
    }
    assert untitled(fields["age"], "title") == {"type": "integer"}


@pytest.mark.parametrize("kind", [AsDataclass, AsAttrs, AsStruct, AsModel])
def test_an_answer_becomes_an_instance(kind):
    form = form_for(kind)
    made = form.load({"name": "Ada", "color": "#00A", "moods": ["bad"], "age": 36.0})
    assert isinstance(made, kind)
    assert (made.name, made.color, made.moods, made.age) == ("Ada", Color.DARK_BLUE, (Mood.BAD,), 36)
    least = form.load({"name": "Ada", "age": None, "color": None})
    assert (least.color, least.moods, least.age) == (Color.RED, (Mood.GOOD,), None)


def test_a_typed_dict_leaves_out_what_was_left_out():
    form = form_for(AsTypedDict)
    assert form.schema["required"] == ["name"]
    assert form.load({"name": "Ada", "color": "#F00"}) == {"name": "Ada", "color": Color.RED}
    assert form.load({"name": "Ada", "age": None}) == {"name": "Ada", "age": None}


def test_a_form_is_made_once_per_type():
    assert form_for(AsDataclass) is form_for(AsDataclass)


def test_options_keep_the_order_they_are_written_in():
    orders = [form_for(hint).schema["properties"]["value"]["enum"] for hint in (Literal["y", "n"], Literal["n", "y"])]
    assert orders == [["y", "n"], ["n", "y"]]


@pytest.mark.parametrize(
    ("hint", "field"),
    [
        (str, {"type": "string"}),
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (Decimal, {"type": "number"}),
        (date, {"type": "string", "format": "date"}),
        (datetime, {"type": "string", "format": "date-time"}),
        (UUID, {"type": "string"}),
        (Email, {"type": "string", "format": "email"}),
        (Url, {"type": "string", "format": "uri"}),
        (pydantic.AnyUrl, {"type": "string", "format": "uri", "minLength": 1}),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (Literal["a", None], {"type": "string", "enum": ["a"]}),  # noqa: PYI061
        (Literal[1, 2], {"type": "string", "enum": ["1", "2"]}),
        (Color, {"type": "string", "oneOf": COLORS, "title": "Color"}),
        (Mood, {"type": "string", "enum": ["good", "bad"], "title": "Mood"}),
        (Size, {"type": "string", "enum": ["SMALL", "LARGE"], "title": "Size"}),
        (Color | None, {"type": "string", "oneOf": COLORS, "title": "Color"}),
        (list[Color], {"type": "array", "items": {"anyOf": COLORS}}),
        (set[Size], {"type": "array", "items": {"type": "string", "enum": ["SMALL", "LARGE"]}}),
        (
            Annotated[list[Literal["a", "b"]], Param(min_length=1, max_length=2)],
            {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "minItems": 1, "maxItems": 2},
        ),
        (
            Annotated[Literal["a", "b"], Param(extra={"enumNames": ["A!", "B!"]})],
            {"type": "string", "oneOf": [{"const": "a", "title": "A!"}, {"const": "b", "title": "B!"}]},
        ),
        (Annotated[int, Param(gt=0, lt=9)], {"type": "integer", "minimum": 1, "maximum": 8}),
        (Annotated[float, Param(ge=0.5)], {"type": "number", "minimum": 0.5}),
        (Annotated[str | None, Param(max_length=4)], {"type": "string", "maxLength": 4}),
    ],
)
def test_a_single_value_is_a_form_of_one_field(hint, field):
    assert form_for(hint).schema["properties"] == {"value": field}


@pytest.mark.parametrize(
    ("hint", "answer", "value"),
    [
        (int, 3.0, 3),
        (Decimal, 0.1, Decimal("0.1")),
        (date, "2026-07-28", date(2026, 7, 28)),
        (datetime, "2026-07-28T00:00:00Z", datetime(2026, 7, 28, tzinfo=UTC)),
        (UUID, "12345678123456781234567812345678", UUID(int=0x12345678123456781234567812345678)),
        (Literal[1, 2], "2", 2),
        (Size, "LARGE", Size.LARGE),
        (Plan, "pro", Plan.PRO),
        (Color | None, None, None),
        (set[Size], ["LARGE", "SMALL"], {Size.SMALL, Size.LARGE}),
        (pydantic.AnyUrl, "https://example.com", pydantic.AnyUrl("https://example.com")),
    ],
)
def test_the_value_of_a_single_field_is_the_answer(hint, answer, value):
    made = form_for(hint).load({"value": answer})
    assert made == value
    assert type(made) is type(value)


def test_an_optional_single_value_may_be_left_out():
    assert form_for(int | None).load({}) is None


def test_members_of_an_enumeration_may_carry_their_titles():
    assert form_for(Plan).schema["properties"]["value"]["oneOf"] == [
        {"const": "free", "title": "Costs nothing"},
        {"const": "pro", "title": "10 € a month"},
    ]


def test_choices_that_are_no_strings_keep_their_default():
    @dataclasses.dataclass
    class Ask:
        size: Size = Size.LARGE
        count: Literal[1, 2] = 2
        sizes: list[Size] = dataclasses.field(default_factory=lambda: [Size.SMALL])

    form = form_for(Ask)
    assert [field["default"] for field in form.schema["properties"].values()] == ["LARGE", "2", ["SMALL"]]
    assert form.load({}) == Ask()
    assert form.load({"size": "SMALL", "count": "1"}) == Ask(Size.SMALL, 1)


def test_a_default_that_is_made_anew_is_not_shown():
    @dataclasses.dataclass
    class Ask:
        day: date = dataclasses.field(default_factory=date.today)
        price: Decimal = Decimal("1.5")

    form = form_for(Ask)
    assert form.schema == {
        "type": "object",
        "properties": {"day": {"type": "string", "format": "date"}, "price": {"type": "number", "default": 1.5}},
    }
    assert isinstance(form.load({}).day, date)


def test_descriptions_come_from_the_docstring():
    @dataclasses.dataclass
    class Ask:
        """Ask for a trip.

        Attributes:
            city: where to
        """

        city: str
        days: Annotated[int, Param("how long")] = 1

    fields = form_for(Ask).schema["properties"]
    assert [fields["city"]["description"], fields["days"]["description"]] == ["where to", "how long"]


def test_a_renamed_field_is_asked_by_its_name_on_the_wire():
    class Ask(msgspec.Struct, rename="camel"):
        first_day: date

    form = form_for(Ask)
    assert list(form.schema["properties"]) == ["firstDay"]
    assert form.load({"firstDay": "2026-01-01"}) == Ask(date(2026, 1, 1))


def test_a_required_field_that_may_be_none_may_be_left_out():
    @dataclasses.dataclass
    class Ask:
        note: str | None

    class Model(pydantic.BaseModel):
        note: str | None

    assert form_for(Ask).load({}) == Ask(None)
    assert form_for(Model).load({}) == Model(note=None)
    assert "required" not in form_for(Ask).schema


def test_a_schema_by_hand_gives_a_dict_with_its_defaults():
    schema = {"type": "object", "properties": {"n": {"type": "integer", "default": 2}, "s": {"type": "string"}}}
    form = form_for(schema)
    assert form.schema is schema
    assert form.load({"s": "x", "n": None}) == {"n": 2, "s": "x"}
    assert form.load({"n": 4.0}) == {"n": 4}
    with pytest.raises(InvalidAnswer, match="unknown field"):
        form.load({"other": 1})


def test_a_form_keeps_the_validator_of_its_type_for_every_answer():
    form = form_for(int)
    validator = form.compiled.validator
    assert [form.load({"value": number}) for number in range(3)] == [0, 1, 2]
    assert form_for(int).compiled.validator is validator


@pytest.mark.parametrize("kind", [int, {"type": "object", "properties": {"value": {"type": "integer"}}}])
def test_a_float_that_may_stand_for_another_integer_is_no_integer(kind):
    with pytest.raises(InvalidAnswer, match=r"value: 1e\+300 is too large to be an exact integer"):
        form_for(kind).load({"value": 1e300})


def test_none_asks_for_consent_only():
    assert form_for(None).schema == {"type": "object", "properties": {}}
    assert form_for(None).load({}) == {}


class Inner(msgspec.Struct):
    x: int


class Pair(NamedTuple):
    a: int


@pytest.mark.parametrize(
    "hint", [Inner, list[Inner], dict[str, int], list[str], list[int], int | str, Any, bytes, Pair]
)
@pytest.mark.parametrize("make", [dataclasses.make_dataclass, lambda name, fields: msgspec.defstruct(name, fields)])
def test_a_field_that_no_form_has_is_refused_by_name(make, hint):
    with pytest.raises(LocalError, match=r'Ask makes no form: the field "wrong" of the form '):
        form_for(make("Ask", [("fine", int), ("wrong", hint)]))


def test_a_nested_model_is_refused_by_name():
    class Ask(pydantic.BaseModel):
        inner: AsModel

    with pytest.raises(LocalError, match='field "inner" of the form is an object'):
        form_for(Ask)


def test_limits_on_a_field_of_pydantic_are_pydantic_s():
    class Ask(pydantic.BaseModel):
        n: Annotated[int, Param(ge=1)]

    with pytest.raises(LocalError, match=r"pydantic\.Field"):
        form_for(Ask)


@pytest.mark.parametrize(
    "kind", [dict, dict[str, int], Any, object, list[str], Literal[True], Literal["1", 1], Pair, range]
)
def test_what_makes_no_form_is_refused_by_name(kind):
    with pytest.raises(LocalError, match="makes no form"):
        form_for(kind)


def test_an_answer_that_does_not_fit_tells_everything():
    with pytest.raises(InvalidAnswer) as caught:
        form_for(AsDataclass).load({"name": "A", "color": "red", "pet": "cat"})
    assert str(caught.value) == (
        "The answer does not fit the form: name: must have at least 2 characters; "
        'color: must be one of "#F00", "#00A", not "red"; unknown field "pet"'
    )


def test_what_the_type_itself_refuses_is_told():
    @dataclasses.dataclass
    class Ask:
        first: int
        last: int

        def __post_init__(self):
            if self.last < self.first:
                raise ValueError("last is before first")

    class Model(pydantic.BaseModel):
        n: int

        @pydantic.field_validator("n")
        @classmethod
        def even(cls, n: int) -> int:
            if n % 2:
                raise ValueError("must be even")
            return n

    with pytest.raises(InvalidAnswer, match="last is before first"):
        form_for(Ask).load({"first": 2, "last": 1})
    with pytest.raises(InvalidAnswer, match="n: Value error, must be even"):
        form_for(Model).load({"n": 1})
    with pytest.raises(InvalidAnswer, match="UUID"):
        form_for(UUID).load({"value": "x"})


def test_a_typed_form_fits_every_revision_that_has_its_fields():
    @dataclasses.dataclass
    class Ask:
        color: Color = Color.RED

    fitted = fit_form(form_for(Ask).schema, REVISIONS["2025-06-18"])
    assert fitted["properties"]["color"] == {
        "type": "string",
        "enum": ["#F00", "#00A"],
        "enumNames": ["Red", "Dark blue"],
    }
    assert form_for(Ask).load({}) == Ask(Color.RED)
