"""Texts without what nobody sees."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.text.sanitize import MAX_DEPTH, clean, clean_text

TEXTS = [
    ("red \x1b[31mtext\x1b[0m", "red text"),
    ("\x1b]0;title\x07shown", "shown"),
    ("\x1b]8;;https://evil.example\x1b\\link\x1b]8;;\x1b\\", "link"),
    ("\x1bP+q544e\x1b\\done", "done"),
    ("bell\x07 back\x08 null\x00 csi\x9b31m", "bell back null csi31m"),
    ("zero\u200bwidth\ufeff", "zerowidth"),
    ("abc\u202egnp.exe", "abcgnp.exe"),
    ("tag\U000e0041\U000e0042s", "tags"),
    ("soft\u00adhyphen", "softhyphen"),
    ("unfinished \x1b[", "unfinished "),
]


@pytest.mark.parametrize(("text", "cleaned"), TEXTS)
def test_escape_sequences_and_invisible_characters_are_removed(text: str, cleaned: str):
    assert clean_text(text) == cleaned


@pytest.mark.parametrize("text", ["tab\t and\r\nlines", "naïve 日本語", "👩\u200d💻", "می\u200cخواهم", ""])
def test_visible_text_is_not_changed(text: str):
    assert clean_text(text) == text


@given(st.text())
def test_no_control_character_is_left(text: str):
    cleaned = clean_text(text)
    assert not {"\x1b", "\x07", "\x00", "\x9b", "\u202e"} & set(cleaned)
    assert clean_text(cleaned) == cleaned


def test_every_text_of_a_result_but_no_bytes_and_no_names():
    image = {"type": "image", "data": "AAA\u200b", "mimeType": "image/png"}
    dirty: dict[str, Any] = {
        "content": [{"type": "text", "text": "a\x1b[1mb"}, image],
        "structuredContent": {"k\x07": ["\x07"]},
    }
    assert clean(dirty) == {"content": [{"type": "text", "text": "ab"}, image], "structuredContent": {"k\x07": [""]}}


def test_data_that_is_no_bytes_is_cleaned():
    assert clean({"data": "a\x07"}) == {"data": "a"}


def test_values_nested_too_deeply_are_replaced():
    value: Any = "\x07"
    for _ in range(MAX_DEPTH + 5):
        value = [value]
    assert "\x07" not in str(clean(value))
