"""Signatures: what a peer sees of a function, and what is refused at registration."""

from __future__ import annotations

import enum
import functools
import pathlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Literal

import pydantic
import pytest

from dovetail.protocol.errors import LocalError
from dovetail.server.signatures.signature import BadArguments, BadResult, Param, prompt_binding, template_binding
from dovetail.types.client_features import InputRequired
from dovetail.types.content import Audio, Content, Embedded, Image, ResourceLink, Text
from dovetail.types.tools import CallToolResult
from tests.server.signatures.hint_samples import (
    MODEL,
    Circle,
    Color,
    Context,
    Line,
    Mixed,
    Model,
    Node,
    Pair,
    Point,
    bound,
    check_schema,
    giving,
    taking,
)

if TYPE_CHECKING:
    from somewhere import Context as ElsewhereContext  # pyright: ignore[reportMissingImports]


def test_the_simplest_tool():
    def add(a: int, b: int = 3) -> int:
        """Add two numbers.

        Args:
            a: the first
        """
        return a + b

    binding = bound(add)
    assert binding.input_schema == {
        "type": "object",
        "properties": {
            "a": {"type": "integer", "description": "the first"},
            "b": {"type": "integer", "default": 3},
        },
        "required": ["a"],
        "additionalProperties": False,
    }
    assert binding.output_schema == {"type": "integer"}
    assert binding.description == "Add two numbers."
    assert binding.bind({"a": 1}) == {"a": 1, "b": 3}
    assert binding.context_name is None
    assert not binding.is_async


def test_a_tool_without_parameters_accepts_no_arguments():
    def fn(): ...

    assert bound(fn).input_schema == {"type": "object", "properties": {}, "additionalProperties": False}
    assert bound(fn).output_schema is None
    with pytest.raises(BadArguments, match='unknown argument "a"; there are no arguments'):
        bound(fn).bind({"a": 1})


def test_every_problem_is_named():
    def fn(city: str, days: Annotated[int, Param(le=14)], unit: Literal["c", "f"] = "c", tags: Sequence[str] = ()): ...

    with pytest.raises(BadArguments) as caught:
        bound(fn).bind({"days": 20, "unit": "k", "tags": ["a", 3], "town": "Lima"})
    assert sorted(caught.value.problems) == [
        "days: must be at most 14, not 20",
        "tags[1]: must be of type string, not the integer 3",
        'the required property "city" is missing',
        'unit: must be one of "c", "f", not "k"',
        'unknown argument "town"; the arguments are: city, days, unit, tags',
    ]


def test_problems_of_models_are_pydantics():
    def fn(model: Model, n: int): ...

    with pytest.raises(BadArguments) as caught:
        bound(fn).bind({"model": {"fullName": "", "age": -1}, "n": "x"})
    assert caught.value.problems == [
        'n: must be of type integer, not the string "x"',
        "model.fullName: String should have at least 1 character",
        "model.age: Input should be greater than or equal to 0",
    ]


def test_pydantic_decides_even_where_it_takes_more_than_its_schema():
    def fn(model: Model, n: int): ...

    assert bound(fn).bind({"model": {"fullName": "a", "age": "3"}, "n": 1.0})["model"].age == 3


def test_values_become_what_the_hints_say():
    def fn(
        point: Point, color: Color, when: datetime, one: Point | Circle, many: set[int], pair: Pair,
        model: Model, path: pathlib.Path, mixed: Mixed, amount: Decimal,
    ): ...  # fmt: skip

    values = bound(fn).bind({
        "point": {"x": 1}, "color": "red", "when": "2026-01-02T03:04:05Z",
        "one": {"center": {"x": 1}, "radius": 2}, "many": [1, 1], "pair": [1],
        "model": MODEL, "path": "a/b", "mixed": 0.5, "amount": 1.5,
    })  # fmt: skip
    assert values == {
        "point": Point(1), "color": Color.RED, "when": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        "one": Circle(Point(1), 2.0), "many": {1}, "pair": Pair(1), "model": Model(**MODEL),
        "path": pathlib.Path("a/b"), "mixed": Mixed.HALF, "amount": Decimal("1.5"),
    }  # fmt: skip


def test_definitions_stand_at_the_root():
    def fn(a: Line, b: list[Point] | None = None) -> Line: ...

    binding = bound(fn)
    assert set(binding.input_schema["$defs"]) == {"Line", "Point"}
    assert binding.input_schema["properties"]["a"] == {"$ref": "#/$defs/Line"}
    # At the root of the output the reference is resolved: older revisions want "type": "object" there.
    assert binding.output_schema["type"] == "object"
    assert set(binding.output_schema["$defs"]) == {"Point"}


def test_recursive_types_are_supported():
    def fn(node: Node) -> Node: ...

    binding = bound(fn)
    assert binding.output_schema["type"] == "object"
    assert "Node" in binding.output_schema["$defs"]
    assert check_schema(binding.output_schema).is_valid({"nodeName": "a", "subNodes": [{"nodeName": "b"}]})


def test_types_of_one_name_are_kept_apart():
    def make():
        @dataclass
        class Point:
            z: str

        return Point

    other = make()

    def fn(a, b, c): ...

    fn.__annotations__ = {"a": Point, "b": other, "c": list[other]}
    binding = bound(fn)
    validator = check_schema(binding.input_schema)
    good = {"a": {"x": 1}, "b": {"z": "s"}, "c": [{"z": "s"}]}
    assert validator.is_valid(good)
    assert not validator.is_valid({**good, "b": {"x": 1}})
    assert not validator.is_valid({**good, "c": [{"x": 1}]})


@pytest.mark.parametrize(
    ("hint", "default", "shown"),
    [
        (int, 3, {"type": "integer", "default": 3}),
        (int | None, None, {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None}),
        (int, None, {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None}),
        (Color, Color.RED, {"title": "Color", "type": "string", "enum": ["red", "blue"], "default": "red"}),
        (list[int], [1], {"type": "array", "items": {"type": "integer"}, "default": [1]}),
        (tuple[int, ...], (1,), {"type": "array", "items": {"type": "integer"}, "default": [1]}),
        (Point, Point(1), {"$ref": "#/$defs/Point", "default": {"x": 1, "y": 0}}),
        (Any, object, {}),
        (Annotated[str, Param("what", title="T", examples=["e"])], "d",
         {"type": "string", "title": "T", "description": "what", "examples": ["e"], "default": "d"}),
        (Annotated[str, "bare"], "d", {"type": "string", "description": "bare", "default": "d"}),
        (Annotated[str, Param(extra={"format": "uri"})], "d",
         {"type": "string", "format": "uri", "default": "d"}),
        (Annotated[int, pydantic.Field(description="what")], 1,
         {"type": "integer", "description": "what", "default": 1}),
        (Annotated[Model, Param("who")], Model(**MODEL),
         {"$ref": "#/$defs/Model", "description": "who",
          "default": {"fullName": "Ada", "age": 36, "friend": None}}),
    ],
)  # fmt: skip
def test_defaults_and_notes_are_shown(hint, default, shown):
    binding = taking(hint, default=default)
    assert binding.input_schema["properties"]["x"] == shown
    check_schema(binding.input_schema)
    assert binding.bind({})["x"] is default or binding.bind({})["x"] == default


def test_the_default_is_the_very_object_unless_it_is_mutable():
    shared = datetime(2025, 1, 2, tzinfo=UTC)
    assert taking(datetime, default=shared).bind({})["x"] is shared
    mutable: list[int] = [1]
    given = taking(list[int], default=mutable).bind({})["x"]
    assert given == mutable
    assert given is not mutable


def test_pydantic_field_as_a_default():
    def fn(a: int = pydantic.Field(3, ge=1), b: str = pydantic.Field(..., description="what")): ...

    binding = bound(fn)
    assert binding.input_schema["required"] == ["b"]
    assert binding.input_schema["properties"]["a"] == {"type": "integer", "minimum": 1, "default": 3}
    assert binding.bind({"b": "x"}) == {"a": 3, "b": "x"}
    with pytest.raises(BadArguments, match="a: Input should be greater than or equal to 1"):
        binding.bind({"a": 0, "b": "x"})


def test_parameters_can_be_mirrored_into_headers():
    def fn(city: Annotated[str, Param(header="City")], n: Annotated[int, Param(header="N")] = 1): ...

    binding = bound(fn)
    assert binding.headers == {"city": "City", "n": "N"}
    assert binding.header_paths == {("city",): "City", ("n",): "N"}
    assert binding.input_schema["properties"]["city"] == {"type": "string", "x-mcp-header": "City"}


@pytest.mark.parametrize(
    ("hint", "said"),
    [
        (Annotated[float, Param(header="A")], "only a string, integer or boolean"),
        (Annotated[str | None, Param(header="A")], "only a string, integer or boolean"),
        (Annotated[list[str], Param(header="A")], "only a string, integer or boolean"),
        (Annotated[str, Param(header="A b")], "no HTTP token"),
        (Annotated[str, Param(header="")], "no HTTP token"),
    ],
)
def test_headers_that_break_the_rules(hint, said):
    with pytest.raises(LocalError, match=said):
        taking(hint)


def test_headers_are_unique():
    def fn(a: Annotated[str, Param(header="Same")], b: Annotated[str, Param(header="SAME")]): ...

    with pytest.raises(LocalError, match=r"fn\(\): the header .* both"):
        bound(fn)


def test_kwargs_take_the_rest_but_never_what_is_not_theirs():
    class Thing:
        def method(self, a: int, ctx: Context, **rest: int): ...

    binding = bound(functools.partial(Thing().method))
    assert binding.context_name == "ctx"
    assert binding.input_schema["additionalProperties"] == {"type": "integer"}
    assert binding.bind({"a": 1, "b": 2}) == {"a": 1, "b": 2}
    for name in ("ctx", "self"):
        with pytest.raises(BadArguments, match="is reserved and cannot be set"):
            binding.bind({"a": 1, name: 2})
    with pytest.raises(BadArguments, match="b: must be of type integer"):
        binding.bind({"a": 1, "b": "x"})


def test_kwargs_accept_any_type():
    def fn(**rest): ...

    assert bound(fn).input_schema == {"type": "object", "properties": {}, "additionalProperties": True}
    assert bound(fn).bind({"a": [1]}) == {"a": [1]}


def test_arguments_fixed_by_a_partial_are_hidden():
    def fn(a: int, key: str, **rest: Any): ...

    binding = bound(functools.partial(fn, key="secret"))
    assert "secret" not in str(binding.input_schema)
    assert set(binding.input_schema["properties"]) == {"a"}
    with pytest.raises(BadArguments):
        binding.bind({"a": 1, "key": "mine"})


def test_callables_of_all_kinds():
    class Tool:
        """The class."""

        async def __call__(self, a: int) -> str: ...

        def method(self, a: int) -> str:
            """The method."""
            return str(a)

        @classmethod
        def of_class(cls, a: int) -> str: ...

        @staticmethod
        async def static(a: int) -> str: ...

    @functools.wraps(Tool.static)
    async def wrapper(*args, **kwargs): ...

    schema = {
        "type": "object",
        "properties": {"a": {"type": "integer"}},
        "required": ["a"],
        "additionalProperties": False,
    }
    tool = Tool()
    for fn, is_async, doc in [
        (tool, True, "The class."), (tool.method, False, "The method."), (Tool.of_class, False, None),
        (Tool.static, True, None), (functools.partial(tool), True, None),
        (functools.partial(tool.method), False, "The method."),
        (wrapper, True, None), (lambda a: a, False, None),
    ]:  # fmt: skip
        binding = bound(fn)
        assert binding.is_async is is_async
        assert binding.description == doc
        if fn.__class__ is not type(lambda: 0) or fn.__name__ != "<lambda>":
            assert binding.input_schema == schema
            assert binding.output_schema == {"type": "string"}


def test_the_context_is_found_by_type():
    def plain(a: int, ctx: Context): ...
    def optional(a: int, anything: Context | None = None): ...
    def annotated(a: int, c: Annotated[Context, "the context"]): ...
    def elsewhere(a: int, ctx: ElsewhereContext): ...
    def quoted(a: int, ctx: "lib.Context"): ...  # noqa: F821, UP037  # pyright: ignore[reportUndefinedVariable]

    for fn, name in [(plain, "ctx"), (optional, "anything"), (annotated, "c"), (quoted, "ctx")]:
        assert bound(fn).context_name == name
        assert set(bound(fn).input_schema["properties"]) == {"a"}
    with pytest.raises(LocalError, match="'ElsewhereContext' of ctx cannot be read"):
        bound(elsewhere)


def test_string_annotations_see_local_classes():
    @dataclass
    class Local:
        a: int

    def fn(x: Local, y: list[Local] | None = None) -> Local: ...

    assert isinstance(fn.__annotations__["x"], str)
    assert bound(fn).bind({"x": {"a": 1}})["x"] == Local(1)


def twice(a: Context, b: Context): ...
def args(*a: int): ...
def position(a: int, /): ...
def generator():
    yield 1


async def stream():
    yield 1


def nowhere(a: Nowhere): ...  # noqa: F821  # pyright: ignore[reportUndefinedVariable]
def function(a: type): ...
def plain_class(a: Context2): ...
def result() -> Context2: ...
def as_default(a: int = Param()): ...  # pyright: ignore[reportArgumentType]
def hidden(__a: int): ...  # noqa: PYI063
def wrong_limit(a: Annotated[list[int], Param(ge=1)]): ...
def lookahead(a: Annotated[str, Param(pattern="(?=a)b")]): ...
def bad_pattern(a: Annotated[str, Param(pattern="(")]): ...
def limits_for_pydantic(a: Annotated[Model, Param(min_length=1)]): ...


class Context2: ...


class Unreadable:
    def method(self, a: int): ...


class Tuples(enum.Enum):
    A = (1, 2)


def tuples(a: Tuples): ...


@dataclass
class Inside:
    a: Context2


def inside(a: Inside): ...


@pytest.mark.parametrize(
    ("fn", "said"),
    [
        (twice, r"twice\(\) has two context parameters: a and b"),
        (args, r"args\(\) takes \*a; arguments have names"),
        (position, r"position\(\) takes a by position only"),
        (generator, r"generator\(\) is a generator"),
        (stream, r"stream\(\) is a generator"),
        (nowhere, r"nowhere\(\): the annotation 'Nowhere' of a cannot be read"),
        (function, r"function\(\): a: type has no form in JSON Schema"),
        (plain_class, r"plain_class\(\): a: Context2 has no form in JSON Schema; use a dataclass"),
        (result, r"result\(\): the result: Context2 has no form .*; else annotate it as Any"),
        (as_default, r"as_default\(\): the default of a is a Param; write a: Annotated"),
        (hidden, r"hidden\(\): rename __a"),
        (wrong_limit, r"wrong_limit\(\): a: ge= does not apply to list\[int\]"),
        (lookahead, r"lookahead\(\): .* without lookaround and back-references"),
        (bad_pattern, r"bad_pattern\(\): the schema cannot be used"),
        (limits_for_pydantic, r"limits_for_pydantic\(\): a: .* pydantic.Field, not with Param"),
        (Unreadable.method, r"Unreadable.method\(\) is a method without its object"),
        (tuples, r"tuples\(\): a: Tuples has values that are not"),
        (inside, r"inside\(\): a: Inside cannot be described: .*Context2"),
    ],
)  # fmt: skip
def test_a_refusal_names_function_and_parameter(fn, said):
    with pytest.raises(LocalError, match=said):
        bound(fn)


@pytest.mark.parametrize(
    "hint",
    [
        Text, Image, Audio, ResourceLink, Embedded, Content, list[Content], list[Text],
        str | list[Content], tuple[Text, ...],
        CallToolResult, Point | CallToolResult, str | Image, InputRequired, Any, Annotated[Image, "picture"],
    ],
)  # fmt: skip
def test_content_promises_nothing(hint):
    binding = giving(hint)
    assert binding.output_schema is None
    value = object()
    assert binding.check_result(value) is value


def test_asking_back_is_no_part_of_the_promise():
    assert giving(str | InputRequired).output_schema == {"type": "string"}
    assert giving(Point | InputRequired).output_schema["title"] == "Point"


def test_schemas_by_hand_with_the_arguments_as_a_whole():
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}

    async def raw(arguments: dict) -> dict: ...

    binding = bound(raw, input_schema=schema, output_schema={"type": "object", "required": ["b"]})
    assert binding.input_schema is schema
    assert binding.bind({"a": 1, "z": 2}) == {"arguments": {"a": 1, "z": 2}}
    with pytest.raises(BadArguments, match='the required property "a" is missing'):
        binding.bind({})
    assert binding.check_result({"b": (1, 2)}) == {"b": [1, 2]}
    with pytest.raises(BadResult, match='the required property "b" is missing'):
        binding.check_result({})


def test_schemas_by_hand_with_named_parameters():
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"point": {"type": "object"}, "n": {"type": "integer", "x-mcp-header": "N"}},
        "required": ["point"],
    }

    def fn(point: Point, ctx: Context, n: int = 3): ...

    binding = bound(fn, input_schema=schema)
    assert binding.headers == {"n": "N"}
    assert binding.bind({"point": {"x": 1}}) == {"point": Point(1), "n": 3}
    assert binding.bind({"point": {"x": 1}, "n": 4.0})["n"] == 4
    with pytest.raises(BadArguments, match=r"point: .*missing required field x"):
        binding.bind({"point": {}})


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "array"}, '"type": "object" at its root'),
        ({"type": "object", "properties": {"a": {}, "b": {}}, "required": ["a"]}, "no parameter for b"),
        ({"type": "object", "properties": {"a": {}}}, "needs a, which its input_schema does not require"),
        ({"type": "object", "$schema": "urn:x", "properties": {"a": {}}, "required": ["a"]},
         "'urn:x' is not supported"),
        ({"type": "object", "properties": {"a": {"$ref": "http://x.example/y"}}, "required": ["a"]},
         "outside itself"),
        ({"type": "object", "properties": {"a": {"type": "int"}}, "required": ["a"]}, "cannot be used"),
    ],
)  # fmt: skip
def test_schemas_by_hand_that_do_not_fit(schema, said):
    def fn(a): ...

    with pytest.raises(LocalError, match=said):
        bound(fn, input_schema=schema)


def test_arguments_of_prompts_are_converted_from_strings():
    def review(
        code: str,
        ctx: Context,
        lines: Annotated[int, Param("how many", title="Lines")] = 3,
        strict: bool = False,
    ):
        """Review code.

        :param code: the code
        """

    binding = prompt_binding(review, Context)
    assert [(a.name, a.description, a.required, a.title) for a in binding.arguments] == [
        ("code", "the code", True, None), ("lines", "how many", False, "Lines"),
        ("strict", None, False, None),
    ]  # fmt: skip
    assert binding.description == "Review code."
    assert binding.context_name == "ctx"
    assert binding.bind({"code": "x", "lines": "5", "strict": "true"}) == {
        "code": "x",
        "lines": 5,
        "strict": True,
    }


def test_templates_and_parameters_must_agree():
    def read(owner: str, page: int = 1): ...

    assert template_binding(read, Context, ("owner", "page")).bind({"owner": "o", "page": "2"}) == {
        "owner": "o",
        "page": 2,
    }
    assert template_binding(read, Context, ("owner",)).bind({"owner": "o"}) == {"owner": "o"}
    with pytest.raises(LocalError, match=r"read\(\) needs owner, which is not a variable of the URI"):
        template_binding(read, Context, ())
    with pytest.raises(LocalError, match=r"read\(\) has no parameter for the URI's variable other"):
        template_binding(read, Context, ("owner", "other"))
