"""More scopes, a few times and no more."""

import pytest

from dovetail.auth.challenge import Challenge
from dovetail.auth.errors import AuthorizationFailed
from dovetail.auth.step_up import MAX_TRIES, StepUp


def wants(*scopes: str) -> Challenge:
    return Challenge("bearer", {"error": "insufficient_scope", "scope": " ".join(scopes), "error_description": "More"})


def test_a_step_up_requests_earlier_scopes_again() -> None:
    step = StepUp().next_attempt(wants("write"), ("read",), ("read",))
    assert (step.tries, step.wanted) == (1, ("read", "write"))
    step = step.next_attempt(wants("admin"), step.wanted, step.wanted)
    assert (step.tries, step.wanted) == (2, ("read", "write", "admin"))


def test_a_server_that_is_never_content() -> None:
    step, requested = StepUp(), ("s",)
    for number in range(MAX_TRIES):
        step = step.next_attempt(wants(f"s{number}"), requested, requested)
        requested = step.wanted
    with pytest.raises(AuthorizationFailed, match=r"after 2 requests for more permissions \(More\)"):
        step.next_attempt(wants("s99"), requested, requested)


def test_a_server_that_wants_what_the_token_has() -> None:
    for granted in (("a", "b"), None):
        with pytest.raises(AuthorizationFailed, match="all the permissions"):
            StepUp().next_attempt(wants("a"), ("a", "b"), granted)


def test_a_server_that_names_nothing() -> None:
    with pytest.raises(AuthorizationFailed, match="all the permissions"):
        StepUp().next_attempt(wants(), ("a",), ("a",))


def test_a_scope_that_was_asked_for_but_not_granted_is_asked_for_once_more() -> None:
    step = StepUp().next_attempt(wants("b"), ("a", "b"), ("a",))
    assert step.wanted == ("a", "b")
    with pytest.raises(AuthorizationFailed, match="all the permissions"):
        step.next_attempt(wants("b"), step.wanted, ("a",))
