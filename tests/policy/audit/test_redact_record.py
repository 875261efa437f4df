"""What goes into the record: bounded, JSON, and without secrets."""

import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.config.launch_spec import LaunchSpec
from dovetail.policy.audit.redact_record import MAX_TEXT, MAX_TOTAL, MAX_VALUES, RecordRedactor


def shortened(value: Any) -> Any:
    return RecordRedactor().value(value)


@pytest.mark.parametrize("value", [None, True, 5, 1.5, "text", [1, "a"], {"a": {"b": [None]}}, "Grüße 👋"])
def test_what_fits_stays(value: Any) -> None:
    assert shortened(value) == value


def test_secrets_go() -> None:
    given = {
        "password": "hunter2",
        "api_key": ["a", "b"],
        "note": "token=abcdef and Bearer abcdefghijklmnop",
        "token": None,
        "nested": {"client_secret": 5},
    }
    assert shortened(given) == {
        "password": "[redacted]",
        "api_key": "[redacted]",
        "note": "token=[redacted] and Bearer [redacted]",
        "token": None,
        "nested": {"client_secret": "[redacted]"},
    }


def test_no_secret_is_cut_in_two_before_it_is_seen() -> None:
    secret = "ghp_" + "a1" * 30
    for before in range(MAX_TEXT - 100, MAX_TEXT + 10, 7):
        assert "a1a1" not in shortened("x" * before + " " + secret)


def test_long_values_are_cut_and_counted() -> None:
    assert shortened("x" * 10_000) == "x" * MAX_TEXT + "[… 10000 characters]"
    many = shortened(list(range(5_000)))
    assert len(many) <= MAX_VALUES and many[-1] == f"[{5_000 - len(many) + 1} more]"
    wide = shortened({f"k{n}": n for n in range(5_000)})
    assert len(wide) <= MAX_VALUES and wide["…"].endswith("more]")
    total = msgspec.json.encode(shortened([f"{n} " + "x" * 3_000 for n in range(200)]))
    assert len(total) < MAX_TOTAL * 2


def test_deep_values_end() -> None:
    deep: Any = "x"
    for _ in range(5_000):
        deep = [deep]
    assert "[nested too deeply]" in str(shortened(deep))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Path("/a"), "/a"),
        (b"abc", "[3 bytes]"),
        ((1, 2), [1, 2]),
        ({1: "a"}, {"1": "a"}),
        ("\ud800", "?"),
        ({"\ud800": "\udfff"}, {"?": "?"}),
        (LaunchSpec(kind="stdio", command=("a",)), None),
    ],
)
def test_what_is_no_json_becomes_some(value: Any, expected: Any) -> None:
    found = shortened(value)
    assert expected is None or found == expected
    assert msgspec.json.encode(found)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
)


@given(json_values)
def test_whatever_comes_can_be_written(value: Any) -> None:
    assert msgspec.json.encode(shortened(value))


def test_a_huge_value_takes_no_time() -> None:
    huge = {"text": "token = x " * 1_000_000, "list": [{"a": "b" * 100}] * 1_000_000}
    started = time.process_time()
    shortened(huge)
    assert time.process_time() - started < 0.5
