"""Which scopes are asked for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.auth import scopes
from dovetail.protocol.errors import LocalError


def test_a_parameter_is_split() -> None:
    assert scopes.split(" files:read  mcp  files:read ") == ("files:read", "mcp")


@given(st.text())
def test_split_scopes_are_valid(text: str) -> None:
    found = scopes.split(text)
    assert scopes.check_scopes(found) == found
    assert scopes.split(" ".join(found)) == found


def test_there_are_not_endlessly_many() -> None:
    assert len(scopes.split(" ".join(map(str, range(1000))))) == scopes.MAX_SCOPES


@pytest.mark.parametrize("scope", ["", "a b", 'a"', "a\\b", "ü", "a\n"])
def test_our_own_must_be_scopes(scope: str) -> None:
    with pytest.raises(LocalError):
        scopes.check_scopes([scope])


@pytest.mark.parametrize(
    ("challenged", "resource", "server", "expected"),
    [
        (("a",), ("b", "c"), None, ("a",)),
        ((), ("b", "c"), None, ("b", "c")),
        ((), None, ("x", "y"), ()),
        ((), (), None, ()),
        (("a",), None, ("a", "offline_access"), ("a", "offline_access")),
        (("a",), None, ("a",), ("a",)),
        # Alone it would ask for nothing but itself.
        ((), None, ("a", "offline_access"), ()),
        (("a", "offline_access"), None, ("offline_access",), ("a", "offline_access")),
    ],
)
def test_scopes_are_selected_from_challenge_and_metadata(challenged, resource, server, expected) -> None:
    assert scopes.select(challenged, resource, server) == expected


def test_nobody_needs_to_stay_signed_in() -> None:
    assert scopes.select(("a",), None, ("offline_access",), offline=False) == ("a",)


def test_scopes_requested_before_are_requested_again() -> None:
    assert scopes.select(("write",), ("ignored",), None, before=("read",)) == ("read", "write")


def test_included_scopes_are_followed_transitively() -> None:
    implies = {"admin": ["write", "list"], "write": ["read"], "read": ["admin"]}
    assert scopes.implied(["write"], implies) == {"write", "read", "admin", "list"}
    assert scopes.implied(["other"], implies) == {"other"}
    assert scopes.implied([], implies) == frozenset()
