"""The reader that knows places: as strict as `json`, but for comments and a comma at the end."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.config.jsonc import MAX_DEPTH, Array, BadJson, LineIndex, Node, Object, Scalar, parse, plain

WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=20,
)
COMMENT = st.sampled_from(["", " ", "\n", "\t", '// a note, with } and "\n', "/* one */", "/*\n * two\n **/", "\r\n"])


@given(VALUES, st.sampled_from([None, 1, "\t"]), st.booleans())
def test_what_json_writes_is_read_as_it_is(value: Any, indent: Any, escaped: bool) -> None:
    assert plain(parse(json.dumps(value, indent=indent, ensure_ascii=escaped))) == value


def commented(value: Any, draw: Any) -> str:
    """JSON with notes between any two words, and commas at ends."""
    note = lambda: draw(COMMENT)  # noqa: E731
    if isinstance(value, dict):
        pairs = [f"{note()}{json.dumps(key)}{note()}:{commented(item, draw)}" for key, item in value.items()]
        return f"{note()}{{{','.join(pairs)}{',' if pairs and draw(st.booleans()) else ''}{note()}}}{note()}"
    if isinstance(value, list):
        items = [commented(item, draw) for item in value]
        return f"{note()}[{','.join(items)}{',' if items and draw(st.booleans()) else ''}{note()}]{note()}"
    return f"{note()}{json.dumps(value)}{note()}"


@given(VALUES, st.data())
def test_comments_and_commas_at_the_end_change_nothing(value: Any, data: st.DataObject) -> None:
    assert plain(parse(commented(value, data.draw))) == value


@given(st.text(st.sampled_from('{}[]",:/*\\ \n0123456789.-+eEtruefalsnu\u00e9\t'), max_size=30))
def test_what_json_takes_is_taken_and_nothing_else_without_a_reason(text: str) -> None:
    wanted = understood(lambda: json.loads(text, object_pairs_hook=distinct, parse_constant=refuse))
    got = understood(lambda: plain(parse(text)))
    if isinstance(got, BadJson):
        assert 0 <= got.offset <= len(text)
        # `json` lets a lone surrogate pass, which nobody can write down again.
        assert isinstance(wanted, ValueError) or re.search("[\ud800-\udfff]", repr_of(wanted))
    elif isinstance(wanted, ValueError):
        assert "//" in text or "/*" in text or re.search(r",\s*[\]}]", text)
    else:
        assert repr_of(got) == repr_of(wanted)


def understood(read: Callable[[], Any]) -> Any:
    """What was read, or the error in its place."""
    try:
        return read()
    except ValueError as problem:
        return problem


def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({key for key, _ in pairs}) != len(pairs):
        raise ValueError("twice")
    return dict(pairs)


def refuse(word: str) -> Any:
    raise ValueError(word)


def repr_of(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


@given(VALUES)
def test_each_value_stands_where_it_says(value: Any) -> None:
    text = json.dumps(value, indent=2)

    def check(node: Node) -> None:
        assert json.loads(text[node.start : node.end]) == plain(node)
        for inner in node.items if isinstance(node, Array) else ():
            check(inner)
        for member in node.members.values() if isinstance(node, Object) else ():
            assert json.loads(text[member.key.start : member.key.end]) == member.key.value
            assert member.comma is None or text[member.comma] == ","
            check(member.value)

    check(parse(text))


@pytest.mark.parametrize(
    ("text", "offset", "words"),
    [
        ("", 0, "missing"),
        ("{", 1, "key"),
        ("[1 2]", 3, "comma"),
        ('{"a" 1}', 5, "colon"),
        ('{"a": }', 6, "missing"),
        ("[,]", 1, "missing"),
        ("[1,,]", 3, "missing"),
        ("{'a': 1}", 1, "double quotes"),
        ('{"a": 1,\n "b": 2,\n "a": 3}', 19, "again, after line 1"),
        ('"open', 0, "closed"),
        ('"a\nb"', 0, "line break"),
        (r'"\x41"', 1, "escape"),
        (r'"\ud800"', 0, "surrogate"),
        ("/* open", 0, "never closed"),
        ("1 2", 2, "nothing more"),
        ("nul", 0, "no JSON"),
        ("NaN", 0, "no JSON"),
        ("-", 0, "no number"),
        ("1" * 5000, 0, "too long"),
        ("[" * (MAX_DEPTH + 2), MAX_DEPTH + 1, "inside of each other"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(text: str, offset: int, words: str) -> None:
    with pytest.raises(BadJson, match=words) as caught:
        parse(text)
    assert caught.value.offset == offset


def test_a_comment_full_of_slashes_takes_no_time() -> None:
    assert parse("//" * 200_000 + "\n1") == Scalar(400_001, 400_002, 1)


def test_lines() -> None:
    lines = LineIndex("a\nb\r\nc")
    assert [lines.at(offset) for offset in range(6)] == [1, 1, 2, 2, 2, 3]
