"""Reading and writing values: nothing is lost, and nothing is sent that the wire does not know."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.types.capabilities import Implementation
from dovetail.types.client_features import CreateMessageParams, InputRequired
from dovetail.types.content import Audio, BlobContents, Content, Embedded, Text, TextContents
from dovetail.types.messages import CompleteParams, LogParams, ProgressParams
from dovetail.types.resources import Resource
from dovetail.types.serialization import Serializer, Value, dump, integers_from_floats, load
from dovetail.types.tasks import Task
from dovetail.types.tools import CallToolParams, CallToolResult, ListToolsResult, Tool
from tests.types.samples import copy, full, kinds, nodes

ALL = kinds()
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
KEYS = st.text(min_size=1, max_size=8).map(lambda name: "x-" + name)


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_a_full_value_survives_the_round_trip(kind: type[Value]) -> None:
    value = full(kind)
    plain = dump(value)
    assert load(kind, copy(plain)) == value
    assert dump(load(kind, copy(plain))) == plain


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_unknown_fields_survive_at_every_depth(kind: type[Value]) -> None:
    value = full(kind)
    plain = copy(dump(value))
    for number, (_, obj) in enumerate(nodes(value, plain)):
        obj["x-new"] = {"number": number}
    loaded = load(kind, plain)
    assert dump(loaded) == plain
    assert all("x-new" in node.extra for node, _ in nodes(loaded, plain))


@given(st.sampled_from(ALL), st.dictionaries(KEYS, JSON, max_size=3), st.data())
def test_any_unknown_fields_survive(kind: type[Value], extra: dict[str, Any], data: st.DataObject) -> None:
    value = full(kind)
    plain = copy(dump(value))
    _, chosen = data.draw(st.sampled_from(list(nodes(value, plain))))
    chosen.update(extra)
    assert dump(load(kind, plain)) == plain


def test_values_take_positions() -> None:
    assert Text("hi").text == "hi"
    assert CallToolParams("add", {"a": 1}).arguments == {"a": 1}
    with pytest.raises(TypeError):
        Text("hi", None, {})  # pyright: ignore[reportCallIssue]


def test_absent_fields_are_not_written_and_null_ones_are_read() -> None:
    assert dump(Tool("a", {})) == {"name": "a", "inputSchema": {}}
    nulls = {"name": "a", "inputSchema": {}, "title": None, "annotations": None, "_meta": None}
    assert load(Tool, nulls) == Tool("a", {})
    assert dump(CallToolResult([], is_error=None)) == {"content": []}


def test_null_is_written_where_it_says_something() -> None:
    task = Task("1", "working", "then", "now", None)
    assert dump(task)["ttl"] is None
    assert dump(CallToolResult([], None))["structuredContent"] is None
    assert dump(LogParams("info", None)) == {"level": "info", "data": None}
    assert load(CallToolResult, {"content": [], "structuredContent": None}).structured_content is None
    assert load(CallToolResult, {"content": []}).structured_content is msgspec.UNSET


def test_numbers_stay_as_they_are() -> None:
    plain = {"progressToken": 1, "progress": 1, "total": 2.5}
    assert dump(load(ProgressParams, plain)) == plain
    assert isinstance(load(ProgressParams, plain).progress, int)


def test_an_integral_float_is_an_integer() -> None:
    resource = load(Resource, {"uri": "a:b", "name": "n", "size": 5.0, "other": 1.5})
    assert (resource.size, type(resource.size), resource.extra) == (5, int, {"other": 1.5})
    with pytest.raises(msgspec.ValidationError, match=r"\$\.size"):
        load(Resource, {"uri": "a:b", "name": "n", "size": 5.5})
    with pytest.raises(msgspec.ValidationError, match=r"\$\.size"):
        load(Resource, {"uri": "a:b", "name": "n", "size": 1e300})


def test_integral_floats_become_integers_at_every_depth() -> None:
    changed = integers_from_floats({"a": [1.0, 1.5, {"b": -2.0}], "c": "1.0", "d": True})
    assert changed == {"a": [1, 1.5, {"b": -2}], "c": "1.0", "d": True}
    assert [type(item) for item in (changed["a"][0], changed["a"][2]["b"], changed["d"])] == [int, int, bool]


@pytest.mark.parametrize("number", [2.0**53, -(2.0**53), 1e300, float("inf"), float("nan"), 0.5])
def test_floats_that_are_no_exact_integers_stay_floats(number: float) -> None:
    assert integers_from_floats(number) is number
    assert type(integers_from_floats(2.0**53 - 1)) is int


def test_a_value_without_integral_floats_is_returned_itself() -> None:
    value: Any = {"a": [1, 1.5, {"b": "c"}], "d": None}
    assert integers_from_floats(value) is value


def test_a_bad_value_deep_in_a_deep_object_is_still_a_bad_value() -> None:
    deep: Any = 1.0
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(msgspec.ValidationError, match=r"\$\.name"):
        load(CallToolParams, {"name": 1, "arguments": {"deep": deep}})


@pytest.mark.parametrize(
    ("kind", "obj", "path"),
    [
        (CallToolParams, {}, "name"),
        (CallToolParams, {"name": 1}, r"\$\.name"),
        (CallToolParams, [], "object"),
        (CallToolParams, {"name": "a", "arguments": []}, r"\$\.arguments"),
        (CallToolResult, {"content": [{"type": "text"}]}, r"\$\.content\[0\]"),
        (CallToolResult, {"content": [{"type": "smell"}]}, r"\$\.content\[0\]\.type"),
        (CallToolResult, {"content": [{"type": "image", "data": "*", "mimeType": ""}]}, r"\[0\]\.data"),
        (
            Embedded,
            {"type": "resource", "resource": {"uri": "a:b", "text": 1}},
            r"\$\.text` - at `\$\.resource",
        ),
        (Embedded, {"type": "resource", "resource": 1}, r"\$\.resource"),
        (Task, {"taskId": "1", "status": "lost"}, r"\$\.status"),
    ],
)
def test_a_validation_error_names_the_path(kind: type[Value], obj: object, path: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=path):
        load(kind, obj)


def test_text_and_blob_are_told_apart_by_what_is_in_them() -> None:
    text = load(Embedded, {"type": "resource", "resource": {"uri": "a:b", "text": "x", "more": 1}})
    blob = load(Embedded, {"type": "resource", "resource": {"uri": "a:b", "blob": "eA=="}})
    assert text.resource == TextContents("a:b", "x", extra={"more": 1})
    assert blob.resource == BlobContents("a:b", b"x")


def test_bytes_are_base64_on_the_wire() -> None:
    assert dump(Audio(b"\xff\xfe", "audio/wav")) == {"type": "audio", "data": "//4=", "mimeType": "audio/wav"}


def test_fields_that_never_travel_cannot_be_sent_in() -> None:
    assert dump(CallToolResult([], 1, wrapped=True)) == {"content": [], "structuredContent": 1}
    loaded = load(CallToolResult, {"content": [], "wrapped": True, "\x7fwrapped": True, "extra": {"a": 1}})
    assert loaded.wrapped is False
    assert loaded.extra == {"wrapped": True, "\x7fwrapped": True, "extra": {"a": 1}}


def test_extra_never_overrules_a_known_field() -> None:
    tool = Tool("a", {}, extra={"name": "b", "title": "t", "x-new": 1})
    assert dump(tool) == {"name": "a", "inputSchema": {}, "x-new": 1}


def test_unknown_fields_of_one_value_are_not_those_of_another() -> None:
    one, other = Text("a"), Text("b")
    one.extra["x"] = 1
    assert other.extra == {}


def test_only_known_fields_are_written() -> None:
    tool = Tool("a", {}, title="A", description="does", meta={"k": 1}, extra={"x-new": 1})
    known = {"Tool": frozenset({"name", "inputSchema", "description"})}
    expected = {"name": "a", "inputSchema": {}, "description": "does", "x-new": 1}
    assert dump(tool, known) == expected
    assert dump(ListToolsResult([tool]), known) == {"tools": [expected]}
    assert dump(Implementation("n", "1", title="T"), {"Implementation": frozenset()}) == {}
    assert dump(Implementation("n", "1"), {"Implementation": frozenset({"name"})}) == {"name": "n"}


def test_a_writer_adapts_values_once_and_at_every_depth() -> None:
    def shout(text: Text) -> Text:
        return Text(text.text.upper() + "!")

    serializer = Serializer(None, {Text: shout})
    blocks: list[Content] = [Text("a"), Text("b")]
    assert [block["text"] for block in serializer.write(CallToolResult(blocks))["content"]] == ["A!", "B!"]


def test_large_parts_are_shared_and_not_copied() -> None:
    schema = {"type": "object"}
    assert dump(Tool("a", schema))["inputSchema"] is schema


def test_mixed_places_hold_one_value_or_many() -> None:
    plain = {
        "messages": [
            {"role": "user", "content": {"type": "text", "text": "a", "x": 1}},
            {"role": "user", "content": [{"type": "text", "text": "b", "x": 2}]},
        ],
        "maxTokens": 5,
    }
    assert dump(load(CreateMessageParams, plain)) == plain


def test_tags_choose_the_type() -> None:
    asked = {"resultType": "input_required", "inputRequests": {"r": {"method": "roots/list", "x": 1}}}
    assert dump(load(InputRequired, asked)) == asked
    prompt = {"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "a", "value": ""}}
    assert dump(load(CompleteParams, prompt)) == prompt
