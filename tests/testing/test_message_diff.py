"""Comparing messages, with values."""

import pytest

from dovetail.testing.message_diff import HIDDEN, as_path, difference, essence, pretty, replaced, same, title, without


def test_the_essence_of_a_request_is_what_it_asks() -> None:
    message = {"jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": {"name": "add", "_meta": {"x": 1}}}
    assert essence(message) == {"method": "tools/call", "params": {"name": "add"}}
    assert essence({"jsonrpc": "2.0", "id": 4, "method": "ping"}) == {"method": "ping"}
    assert essence({"id": 4, "method": "tools/list", "params": {"_meta": {}}}) == {"method": "tools/list"}


def test_the_essence_of_a_greeting_is_the_revision() -> None:
    params = {"protocolVersion": "2025-11-25", "clientInfo": {"name": "a"}, "capabilities": {}}
    assert essence({"id": 1, "method": "initialize", "params": params}) == {
        "method": "initialize",
        "params": {"protocolVersion": "2025-11-25"},
    }


def test_the_essence_of_an_answer_is_its_outcome() -> None:
    assert essence({"jsonrpc": "2.0", "id": 1, "result": {"a": 1}}) == {"result": {"a": 1}}
    assert essence({"jsonrpc": "2.0", "id": 1, "error": {"code": -1}}) == {"error": {"code": -1}}


@pytest.mark.parametrize(
    ("one", "other"),
    [({"a": [1, {"b": None}]}, {"a": [1.0, {"b": None}]}), (HIDDEN, 3), ({"a": HIDDEN}, {"a": {"b": 1}})],
)
def test_equivalent_messages_are_the_same(one: object, other: object) -> None:
    assert same(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, True),
        ({"a": 1}, {"a": 1, "b": 2}),
        ([1], [1, 2]),
        ({}, []),
        (0, None),
        ("1", 1),
        (3, HIDDEN),
        ({"a": 1}, {"a": 2}),
    ],
)
def test_different_messages_are_not_the_same(one: object, other: object) -> None:
    assert not same(one, other)


def test_ignored_paths_are_left_out() -> None:
    value = {"result": {"at": 1, "items": [{"id": 1, "n": 2}, {"id": 3, "n": 4}], "kept": 5}}
    paths = [as_path("result.at"), as_path("result.items.*.id")]
    assert without(value, paths) == {"result": {"items": [{"n": 2}, {"n": 4}], "kept": 5}}
    assert without(value, []) is value
    assert without({"a.b": 1, "c": 2}, [("a.b",)]) == {"c": 2}
    assert without({"a": 1, "b": [2]}, [("*",)]) == {}
    assert without({"a": [1, 2]}, [as_path("a.1.b")]) == {"a": [1, 2]}


def test_texts_are_replaced_wherever_they_stand() -> None:
    assert replaced({"a": ["x", {"b": "x"}], "x": 1}, {"x": "y"}) == {"a": ["y", {"b": "y"}], "x": 1}


def test_a_difference_shows_the_lines_that_differ() -> None:
    told = difference({"b": 1, "a": [1, 2]}, {"a": [1, 3], "b": 1})
    assert told.startswith("--- recorded\n+++ now\n")
    assert "-    2" in told
    assert "+    3" in told
    assert pretty({"b": 1, "a": 2}) == '{\n  "a": 2,\n  "b": 1\n}'


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ({"id": 3, "result": {}}, "the answer to 3"),
        ({"method": "tools/call", "params": {"name": "add"}}, "tools/call 'add'"),
        ({"method": "resources/read", "params": {"uri": "a://b"}}, "resources/read 'a://b'"),
        ({"method": "ping"}, "ping"),
        ({"method": "tools/list", "params": {}}, "tools/list"),
    ],
)
def test_a_message_in_a_few_words(message: dict[str, object], words: str) -> None:
    assert title(message) == words
