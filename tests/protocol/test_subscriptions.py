"""Which resources lie below which."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.protocol.subscriptions import above, covers

COVERED = [
    ("file:///a", "file:///a"),
    ("file:///a", "file:///a/b"),
    ("file:///a/", "file:///a/b/c"),
    ("file:///", "file:///a"),
    ("config://app", "config://app/db"),
    ("config://app", "config://app?x=1"),
    ("config://app", "config://app#part"),
    ("repo://o/n", "repo://o/n/src/main.py"),
    ("urn:x", "urn:x/y"),
]
APART = [
    ("file:///a", "file:///ab"),
    ("file:///a/", "file:///a"),
    ("file:///a/b", "file:///a"),
    ("config://", "config://app"),
    ("config:", "config://app"),
    ("config://app", "config://application"),
    ("", "config://app"),
]


@pytest.mark.parametrize(("watched", "uri"), COVERED)
def test_covered(watched: str, uri: str):
    assert covers(watched, uri)
    assert watched in set(above(uri))


@pytest.mark.parametrize(("watched", "uri"), APART)
def test_not_covered(watched: str, uri: str):
    assert not covers(watched, uri)
    assert watched not in set(above(uri))


def test_all_that_are_above_one():
    assert list(above("x://a/b?c")) == ["x://a/b?c", "x://a/b?", "x://a/b", "x://a/", "x://a"]


uris = st.builds(
    lambda scheme, rest: scheme + rest, st.sampled_from(["x:", "x://", "file:///"]), st.text("ab/?#", max_size=8)
)


@given(uris, uris)
def test_both_ways_of_asking_agree(watched: str, uri: str):
    assert covers(watched, uri) == (watched in set(above(uri)))
