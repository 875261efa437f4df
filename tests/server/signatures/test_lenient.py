"""Lenient arguments repair mistakes that have one meaning, and refuse what is ambiguous."""

from __future__ import annotations

import json
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal, Optional

import pytest

from dovetail import Client, Context, Server, ToolFailed
from dovetail.server.signatures.lenient import ArgumentRepair
from dovetail.server.signatures.signature import BadArguments
from tests.server.signatures.hint_samples import HINTS, NAMES, bound, taking


@dataclass
class Place:
    city: str
    floor: int = 0
    tags: Optional[list[str]] = None  # noqa: UP045


def lenient(hint: Any, **default: Any) -> Any:
    def fn(x): ...

    fn.__annotations__ = {"x": hint}
    if default:
        fn.__defaults__ = (default["default"],)
    return bound(fn, lenient_arguments=True)


REPAIRED = [
    (int, "1", 1),
    (int, " -7 ", -7),
    (int, "5.0", 5),
    (float, "1.5", 1.5),
    (float, "2e3", 2000.0),
    (bool, "true", True),
    (bool, "False", False),
    (int | None, "null", None),
    (int | None, "None", None),
    (Literal[1, 2], "2", 2),
    (list[int], "[1, 2]", [1, 2]),
    (list[str], '["a", "b"]', ["a", "b"]),
    (list[int], ["1", 2], [1, 2]),
    (list[int], '["1", "2"]', [1, 2]),
    (dict[str, int], '{"a": "1"}', {"a": 1}),
    (Place, '{"city": "Lima", "floor": "3"}', Place("Lima", 3)),
    (Place, {"city": "Lima", "floor": "3"}, Place("Lima", 3)),
    (Place, {"city": "Lima", "floor": None}, Place("Lima")),
    (Place, {"city": "Lima", "tags": '["a"]'}, Place("Lima", 0, ["a"])),
    (list[Place], '[{"city": "Lima"}]', [Place("Lima")]),
    (int | list[int], "[1]", [1]),
    (tuple[int, str], ["1", "1"], (1, "1")),
    (list[tuple[float, float]], '[["1", 2]]', [(1.0, 2.0)]),
    (int | bool, "true", True),
]


@pytest.mark.parametrize(("hint", "sent", "meant"), REPAIRED, ids=[str(r[:2]) for r in REPAIRED])
def test_a_mistake_with_one_meaning_is_repaired(hint: Any, sent: Any, meant: Any) -> None:
    with pytest.raises(BadArguments):
        taking(hint).bind({"x": sent})
    copy = json.loads(json.dumps(sent))
    assert lenient(hint).bind({"x": sent}) == {"x": meant}
    assert sent == copy


REFUSED = [
    (str, 5), (str, None), (int, "five"), (int, "1.5"), (int, "007"), (int, "1,000"), (int, "5 days"), (int, ""),
    (int, "١"), (int, "1" * 400), (float, "NaN"), (float, "Infinity"), (bool, "yes"), (bool, "1"), (bool, 1),
    (list[str], "a"), (list[str], "a, b"), (list[int], "{}"), (list[int], "[1"), (dict[str, int], "[]"),
    (Place, '{"floor": 1}'), (Place, '"Lima"'), (Literal["a"], " a"), (int | None, "none at all"),
    (Place | dict[str, int], '{"floor": "5"}'),
]  # fmt: skip


@pytest.mark.parametrize(("hint", "sent"), REFUSED, ids=[str(r)[:40] for r in REFUSED])
def test_what_is_not_certain_is_refused_with_the_words_of_strict_validation(hint: Any, sent: Any) -> None:
    with pytest.raises(BadArguments) as strict:
        taking(hint).bind({"x": sent})
    with pytest.raises(BadArguments) as refused:
        lenient(hint).bind({"x": sent})
    assert refused.value.problems == strict.value.problems


@pytest.mark.parametrize("hint", [str, str | int, int | str | None, Decimal, Any], ids=str)
@pytest.mark.parametrize("text", ["1", "true", "null", "[1]", '{"a": 1}', ""])
def test_a_parameter_that_takes_strings_gets_them_untouched(hint: Any, text: str) -> None:
    try:
        expected = taking(hint).bind({"x": text})
    except BadArguments:
        expected = None
    if expected is not None:
        assert lenient(hint).bind({"x": text}) == expected


@pytest.mark.parametrize(("hint", "good", "bad"), HINTS, ids=NAMES)
def test_what_strict_validation_accepts_is_bound_the_same(hint: Any, good: list[Any], bad: list[Any]) -> None:
    strict, tolerant = taking(hint), lenient(hint)
    assert tolerant.input_schema == strict.input_schema
    for value in good:
        assert tolerant.bind({"x": value}) == strict.bind({"x": value})


@pytest.mark.parametrize(("hint", "good", "bad"), HINTS, ids=NAMES)
def test_a_value_written_as_json_in_a_string_never_becomes_another_value(
    hint: Any, good: list[Any], bad: list[Any]
) -> None:
    strict, tolerant = taking(hint), lenient(hint)
    for value in good:
        try:
            strict.bind({"x": json.dumps(value)})
        except BadArguments:
            pass
        else:
            continue
        try:
            repaired = tolerant.bind({"x": json.dumps(value)})
        except BadArguments:
            continue
        assert repaired == strict.bind({"x": value})


def test_a_string_stays_one_when_another_argument_is_repaired() -> None:
    def fn(text: str, code: int | str, count: int): ...

    binding = bound(fn, lenient_arguments=True)
    sent = {"text": "true", "code": "1", "count": "5"}
    assert binding.bind(sent) == {"text": "true", "code": "1", "count": 5}


def test_a_missing_or_an_unknown_argument_is_not_invented() -> None:
    def fn(count: int, label: str = ""): ...

    binding = bound(fn, lenient_arguments=True)
    for arguments in ({}, {"counts": "1"}, {"count": None}):
        with pytest.raises(BadArguments):
            binding.bind(arguments)
    assert binding.bind({"count": "1", "label": None}) == {"count": 1, "label": ""}


def test_deep_nesting_is_not_followed() -> None:
    schema = {"type": "object", "properties": {"a": {"$ref": "#"}, "n": {"type": "integer"}}}
    arguments: dict[str, Any] = {"n": "1"}
    for _ in range(5000):
        arguments = {"a": arguments}
    assert ArgumentRepair(schema)(arguments) is arguments


def test_a_reference_to_itself_or_to_nothing_is_left_alone() -> None:
    for reference in ("#/$defs/a", "#/$defs/missing", "http://example.com/x", "#/$defs/a/anyOf/0"):
        schema = {
            "type": "object",
            "properties": {"x": {"$ref": reference}},
            "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}]}},
        }
        arguments = {"x": "1"}
        assert ArgumentRepair(schema)(arguments) is arguments


async def test_the_option_applies_to_a_server_and_to_a_tool() -> None:
    tolerant, strict = Server("s", lenient_arguments=True), Server("s")

    def double(n: int) -> int:
        return 2 * n

    tolerant.tool(double)
    tolerant.tool(double, name="exact", lenient_arguments=False)
    strict.tool(double, name="tolerant", lenient_arguments=True)
    strict.tool(double)
    async with Client(tolerant) as client:
        assert (await client.call("double", {"n": "2"})).data == 4
        with pytest.raises(ToolFailed, match="n: must be of type integer"):
            await client.call("exact", {"n": "2"})
    async with Client(strict) as client:
        assert (await client.call("tolerant", {"n": "2"})).data == 4
        with pytest.raises(ToolFailed, match="n: must be of type integer"):
            await client.call("double", {"n": "2"})


async def test_a_question_in_a_repaired_call_is_answered_with_the_arguments_as_sent() -> None:
    """The sealed state binds the arguments of the first request, which the retry repeats as they were."""
    server = Server("s", lenient_arguments=True)

    @server.tool
    async def ask(n: int, ctx: Context) -> str:
        answer = await ctx.elicit("Sure?")
        return f"{n} {answer.accepted}"

    async with Client(server, on_elicit=lambda *_: {}) as client:
        assert (await client.call("ask", {"n": "5"})).data == "5 True"
