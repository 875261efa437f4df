"""The kinds of message are values: equal by content, and never changed."""

import pytest

from dovetail.wire.jsonrpc import Failure, Invalid, Notification, Request, Response


def test_messages_are_equal_when_they_say_the_same():
    assert Request(1, "ping", {}) == Request(1, "ping", {})
    assert Request(1, "ping", {}) != Request(2, "ping", {})
    assert Notification("a", {}) != Notification("b", {})


def test_ids_are_type_exact():
    assert Request(5, "ping", {}) != Request("5", "ping", {})


def test_a_message_cannot_be_changed():
    with pytest.raises(AttributeError):
        Response(1, {}).id = 2  # pyright: ignore[reportAttributeAccessIssue]


def test_an_error_may_come_without_data_and_without_an_id():
    assert Failure(None, -32700, "Parse error").data is None


def test_what_cannot_be_taken_is_a_request_unless_it_says_otherwise():
    assert Invalid(None, -32600, "why").reply is False
