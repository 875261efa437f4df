"""Hints of every kind with values that fit and values that do not."""

from __future__ import annotations

import enum
import pathlib
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple, NewType, NotRequired, Optional, TypedDict, Union
from uuid import UUID

import attrs
import jsonschema_rs
import msgspec
import pydantic
from typing_extensions import TypedDict as ExtendedTypedDict

from dovetail.server.signatures.signature import Param, tool_binding


class Context:
    """Stands for the server's context."""


def bound(fn: Any, **options: Any) -> Any:
    return tool_binding(fn, context_type=Context, **options)


def taking(hint, **default):
    """A binding for a function with one parameter `x` of a hint."""

    def fn(x): ...

    fn.__annotations__ = {"x": hint}
    if default:
        fn.__defaults__ = (default["default"],)
    return bound(fn)


def giving(hint):
    def fn(): ...

    fn.__annotations__ = {"return": hint}
    return bound(fn)


def check_schema(schema):
    jsonschema_rs.meta.validate({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema})
    return jsonschema_rs.Draft202012Validator(schema)


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Mixed(enum.Enum):
    ONE = 1
    HALF = 0.5
    NAME = "name"
    NONE = None


class Shade(enum.StrEnum):
    DARK = "dark"


@dataclass
class Point:
    """A place on the plane."""

    x: int
    y: int = 0


@dataclass
class Line:
    start: Point
    end: Point
    names: list[str] = field(default_factory=list)


@dataclass
class Circle:
    center: Point
    radius: float


class Movie(TypedDict):
    title: str
    year: NotRequired[int]


class Pair(NamedTuple):
    left: int
    right: str = "r"


@attrs.define
class Box:
    width: int
    label: str = "box"


class Node(msgspec.Struct, rename="camel"):
    node_name: str
    sub_nodes: list[Node] = []


class Tagged(msgspec.Struct, tag=True):
    a: int


class Model(pydantic.BaseModel):
    """A model."""

    name: str = pydantic.Field(alias="fullName", min_length=1)
    age: int = pydantic.Field(ge=0)
    friend: Optional[Model] = None  # noqa: UP045


class Account(ExtendedTypedDict):
    owner: Model


@dataclass
class Holder:
    model: Model
    count: int


UserId = NewType("UserId", int)
MODEL = {"fullName": "Ada", "age": 36}

# hint, JSON values that fit, JSON values that do not
HINTS: list[tuple[Any, list[Any], list[Any]]] = [
    (str, ["", "a"], [1, None, ["a"]]),
    (int, [0, -5, 2**70, 5.0], [True, "5", 5.5, None]),
    (float, [0, 1.5, -2], ["1", True, None]),
    (bool, [True, False], [0, "true", None]),
    (None, [None], [0, "", False]),
    (Any, [None, 1, "a", [1], {"a": 1}], []),
    (object, [None, 1, {}], []),
    (bytes, ["aGk="], [1, None]),
    (list, [[], [1, "a"]], [{}, "a"]),
    (list[int], [[], [1, 2], [1.0]], [["a"], [None], 1]),
    (list[list[str]], [[["a"], []]], [["a"]]),
    (tuple, [[], [1]], [1]),
    (tuple[int, str], [[1, "a"]], [[1], ["a", 1], [1, "a", 2]]),
    (tuple[int, ...], [[], [1, 2]], [["a"]]),
    (tuple[()], [[]], [[1]]),
    (set[str], [[], ["a", "b"]], [[1], "a"]),
    (frozenset[int], [[1]], [["a"]]),
    (dict, [{}, {"a": 1}], [[], None]),
    (dict[str, int], [{}, {"a": 1}], [{"a": "b"}, []]),
    (dict[str, Any], [{"a": None}], [1]),
    (dict[int, str], [{"1": "a", "-2": "b"}], [{"a": "b"}, {"1.5": "a"}]),
    (dict[Color, int], [{"red": 1}], [{"green": 1}]),
    (dict[Level, int], [{"1": 1}], [{"3": 1}]),
    (Literal["a", "b"], ["a"], ["c", 1]),
    (
        Literal[1, "a", None],  # noqa: PYI061
        [1, "a", None, 1.0],
        [2, True],
    ),
    (Literal[True], [True], [False, 1]),
    (Literal[Color.RED], ["red"], ["blue", 1]),
    (Color, ["red", "blue"], ["RED", 1]),
    (Level, [1, 2], [3, "1", True]),
    (Mixed, [1, 0.5, "name", None], [2, "x", True]),
    (Shade, ["dark"], ["light"]),
    (Optional[int], [1, None], ["a"]),  # noqa: UP045
    (int | None, [1, None], ["a"]),
    (int | str, [1, "a"], [None, 1.5]),
    (int | float, [1, 1.5], ["a"]),
    (Union[int, str, None], [1, "a", None], [[]]),  # noqa: UP007
    (list[int] | None, [[1], None], [["a"], 1]),
    (str | date, ["2026-01-02", "x"], [1]),
    (list[int] | set[str], [[1], ["a"]], [[None], 1]),
    (Point, [{"x": 1}, {"x": 1, "y": 2}], [{}, {"x": "a"}, []]),
    (Line, [{"start": {"x": 1}, "end": {"x": 2}}], [{"start": {"x": 1}}]),
    (Point | None, [{"x": 1}, None], [{"x": None}]),
    (Point | Circle, [{"x": 1}, {"center": {"x": 1}, "radius": 2}], [{}, 3]),
    (list[Point | Circle], [[{"x": 1}, {"center": {"x": 1}, "radius": 2}]], [[{}]]),
    (dict[str, Point | Circle | None], [{"a": {"x": 1}, "b": None}], [{"a": 1}]),
    (dict[str, Point], [{"a": {"x": 1}}], [{"a": {}}]),
    (Movie, [{"title": "a"}, {"title": "a", "year": 1}], [{}, {"title": "a", "year": "b"}]),
    (Pair, [[1, "a"], [1]], [[], ["a"], [1, 2]]),
    (Box, [{"width": 1}], [{}, {"width": "a"}]),
    (Node, [{"nodeName": "a", "subNodes": [{"nodeName": "b"}]}], [{"node_name": "a"}]),
    (Tagged, [{"type": "Tagged", "a": 1}], [{"type": "Other", "a": 1}]),
    (datetime, ["2026-01-02T03:04:05Z"], [1]),
    (date, ["2026-01-02"], [1]),
    (time, ["03:04:05"], [1]),
    (timedelta, ["P1D"], [None]),
    (UUID, ["12345678-1234-5678-1234-567812345678"], [1]),
    (Decimal, ["1.50", 1.5, 2], [None, []]),
    (pathlib.Path, ["a/b"], [1]),
    (UserId, [1], ["a"]),
    (Annotated[int, Param(ge=1, le=3)], [1, 3, 2.0], [0, 4]),
    (Annotated[int | None, Param(gt=0)], [1, None], [0]),
    (Annotated[float, Param(gt=0, lt=1)], [0.5], [0, 1, 1.0]),
    (Annotated[float, Param(multiple_of=0.1)], [0.3, 1], [0.35]),
    (Annotated[int, Param(multiple_of=5)], [10], [11]),
    (Annotated[str, Param(min_length=2, max_length=3)], ["ab", "äöü"], ["a", "abcd"]),
    (Annotated[str, Param(pattern="^a+$")], ["aaa"], ["b", ""]),
    (Annotated[list[int], Param(min_length=1)], [[1]], [[]]),
    (Annotated[dict[str, int], Param(max_length=1)], [{"a": 1}], [{"a": 1, "b": 2}]),
    (list[Annotated[str, Param(pattern="^a$")]], [["a"]], [["b"]]),
    (Annotated[int, msgspec.Meta(ge=2)], [2], [1]),
    (pydantic.PositiveInt, [1], [0]),
    (Model, [MODEL, {**MODEL, "friend": MODEL}], [{}, {"fullName": "", "age": 1}, {"name": "a", "age": 1}]),
    (Model | None, [MODEL, None], [{}]),
    (list[Model], [[MODEL]], [[{}]]),
    (Holder, [{"model": MODEL, "count": 1}], [{"model": {}, "count": 1}]),
    (Account, [{"owner": MODEL}], [{"owner": {}}]),
    (Annotated[int, pydantic.Field(ge=3)], [3], [2]),
]
NAMES = [str(hint).replace("typing.", "") for hint, _, _ in HINTS]
