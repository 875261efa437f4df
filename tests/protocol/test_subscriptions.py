"""Matching of notifications with subscriptions: sub-resources, filters, acknowledgements."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.protocol.subscriptions import ancestors, covering, covers, includes_list, unacknowledged
from dovetail.types.messages import SubscriptionFilter

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
def test_sub_resources_are_covered(watched: str, uri: str):
    assert covers(watched, uri)
    assert watched in set(ancestors(uri))


@pytest.mark.parametrize(("watched", "uri"), APART)
def test_other_resources_are_not_covered(watched: str, uri: str):
    assert not covers(watched, uri)
    assert watched not in set(ancestors(uri))


def test_all_that_are_above_one():
    assert list(ancestors("x://a/b?c")) == ["x://a/b?c", "x://a/b?", "x://a/b", "x://a/", "x://a"]


uris = st.builds(
    lambda scheme, rest: scheme + rest, st.sampled_from(["x:", "x://", "file:///"]), st.text("ab/?#", max_size=8)
)


@given(uris, uris)
def test_ancestors_and_covers_agree(watched: str, uri: str):
    assert covers(watched, uri) == (watched in set(ancestors(uri)))


def test_the_subscriptions_that_cover_a_uri_come_most_specific_first() -> None:
    subscribed = {"file:///a/", "file:///a/b", "file:///c"}
    assert covering(subscribed, "file:///a/b") == ["file:///a/b", "file:///a/"]
    assert covering(subscribed, "file:///a/b/c.txt") == ["file:///a/b", "file:///a/"]
    assert covering(subscribed, "file:///ab") == []


def test_a_filter_includes_the_lists_it_names() -> None:
    wanted = SubscriptionFilter(tools_list_changed=True, prompts_list_changed=False)
    assert includes_list(wanted, "tools")
    assert not includes_list(wanted, "prompts")
    assert not includes_list(wanted, "resources")


@pytest.mark.parametrize(
    "acknowledged", [None, {}, {"resourceSubscriptions": None}, {"resourceSubscriptions": "a:b"}, []]
)
def test_an_acknowledgement_without_resources_covers_none(acknowledged: object) -> None:
    assert unacknowledged(["a:b"], acknowledged) == ["a:b"]


def test_resources_that_the_server_left_out_are_unacknowledged() -> None:
    assert unacknowledged(["a:b", "a:c"], {"resourceSubscriptions": ["a:c", "a:d"]}) == ["a:b"]
