"""Patterns with `*` and `?`."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.policy.globs import glob_matches


@pytest.mark.parametrize(
    ("pattern", "text", "fits"),
    [
        ("*", "", True),
        ("", "", True),
        ("", "a", False),
        ("read_*", "read_file", True),
        ("read_*", "read", False),
        ("*_file", "read_file", True),
        ("r?ad", "read", True),
        ("r?ad", "rad", False),
        ("a*b*c", "axxbyyc", True),
        ("a*b*c", "axxbyy", False),
        ("[a]", "a", False),
        ("[a]", "[a]", True),
        ("A*", "abc", False),
        ("*\n*", "a\nb", True),
    ],
)
def test_what_fits(pattern: str, text: str, fits: bool) -> None:
    assert glob_matches(pattern, text) is fits


@given(st.text("ab*?", max_size=8), st.text("ab", max_size=10))
def test_a_pattern_matches_as_a_regular_expression_does(pattern: str, text: str) -> None:
    expression = "".join({"*": ".*", "?": "."}.get(sign, sign) for sign in pattern)
    assert glob_matches(pattern, text) is (re.fullmatch(expression, text) is not None)


def test_a_hostile_pattern_takes_no_time() -> None:
    """One that a regular expression would need longer for than the universe is old."""
    started = time.process_time()
    assert not glob_matches("*a" * 100 + "b", "a" * 2_000)
    assert time.process_time() - started < 2
