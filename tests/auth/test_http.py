"""Flows, their requests and what they read from responses."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.auth.errors import AuthorizationFailed
from dovetail.auth.http import MAX_BODY, Document, Flow, OAuthRequest, OAuthResponse, get, post_form, post_json

from .web import drive


def asking(urls: list[str]) -> Flow[list[int]]:
    statuses: list[int] = []
    for url in urls:
        try:
            response = yield get(url)
        except OSError:
            statuses.append(0)
        else:
            statuses.append(response.status)
    return statuses


def test_a_flow_gets_the_response_of_each_request() -> None:
    answers = {"https://a": 200, "https://b": 404}
    assert drive(asking(["https://a", "https://b"]), lambda request: OAuthResponse(answers[request.url])) == [200, 404]


def test_a_flow_that_asks_nothing() -> None:
    assert drive(asking([]), lambda request: pytest.fail("nothing to send")) == []


def test_a_flow_learns_why_there_is_no_response() -> None:
    def send(request: OAuthRequest) -> OAuthResponse:
        raise OSError("unreachable")

    assert drive(asking(["https://a"]), send) == [0]


def test_an_error_that_a_flow_does_not_catch_reaches_its_driver() -> None:
    def send(request: OAuthRequest) -> OAuthResponse:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        drive(asking(["https://a"]), send)


def test_a_form_is_encoded() -> None:
    request = post_form("https://a/token", [("resource", "https://b/?x=1&y"), ("scope", "a b")], {"dpop": "proof"})
    assert request.body == b"resource=https%3A%2F%2Fb%2F%3Fx%3D1%26y&scope=a+b"
    assert request.headers["content-type"] == "application/x-www-form-urlencoded"
    assert request.headers["dpop"] == "proof"


def test_json_is_encoded() -> None:
    request = post_json("https://a/register", {"a": ["ü"]})
    assert request.body == '{"a":["ü"]}'.encode()
    assert request.headers["content-type"] == "application/json"


def test_secrets_are_not_shown() -> None:
    shown = repr(post_form("https://a", [("s", "SECRET")], {"a": "SECRET"})) + repr(OAuthResponse(200, {}, b"SECRET"))
    assert "SECRET" not in shown and "https://a" in shown


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"null", b"{", b'"x"', b"\xff", b'{"a":' * 100_000, b" " * (MAX_BODY + 1)]
)
def test_only_an_object_is_a_document(body: bytes) -> None:
    with pytest.raises(AuthorizationFailed, match=r"^The card"):
        Document.read(body, "The card")


@given(st.binary(max_size=200))
def test_any_body_is_read_or_refused(body: bytes) -> None:
    with contextlib.suppress(AuthorizationFailed):
        assert isinstance(Document.read(body, "The card").fields, dict)


def test_fields_are_what_they_should_be() -> None:
    card = Document.read(b'{"t": "x", "l": ["a", "b"], "e": [], "y": true, "n": null}', "The card")
    assert card.text("t") == card.needed("t") == "x"
    assert card.texts("l") == ("a", "b") and card.texts("e") == ()
    assert card.flag("y") and not card.flag("n") and not card.flag("gone")
    assert card.text("n") is None and card.texts("gone") is None


@pytest.mark.parametrize(
    ("read", "value"),
    [
        *[("text", value) for value in (b"1", b'""', b"[]", b"{}", b"true", b'"' + b"x" * 3000 + b'"')],
        *[("texts", value) for value in (b"1", b'"a"', b"[1]", b"[null]", b"{}", b'["' + b"x" * 3000 + b'"]')],
        ("texts", b"[" + b",".join([b'"x"'] * 300) + b"]"),
        *[("flag", value) for value in (b"1", b'"true"', b"[]")],
        ("needed", b"null"),
    ],
)
def test_other_fields_are_refused(read: str, value: bytes) -> None:
    card = Document.read(b'{"f": ' + value + b"}", "The card")
    with pytest.raises(AuthorizationFailed, match=r"^The card has .*f"):
        getattr(card, read)("f")
