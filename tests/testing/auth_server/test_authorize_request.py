"""What a client may ask a user for, and who is told when it may not."""

from urllib.parse import parse_qs, urlsplit

import pytest

from dovetail.testing.auth_server.authorize_request import Offer
from dovetail.testing.auth_server.clients import KnownClient
from dovetail.testing.auth_server.errors import RedirectedError, RequestError, read_fields
from tests.testing.auth_server.asks import BACK, CLIENT, RESOURCE, authorization


def test_a_request_is_read() -> None:
    request = authorization()
    assert (request.redirect_uri, request.state, request.resource) == (BACK, "s1", RESOURCE)
    assert request.scopes == ("read", "write")


def test_an_answer_says_for_which_request_and_from_whom_it_is() -> None:
    assert parse_qs(urlsplit(authorization().back("http://me", code="c")).query) == {
        "code": ["c"],
        "state": ["s1"],
        "iss": ["http://me"],
    }
    client = KnownClient(id="q", name="Q", redirect_uris=("https://shop.example/cb?a=b",))
    back = authorization(None, client, redirect_uri=None).back("http://me", code="c")
    assert back.startswith("https://shop.example/cb?a=b&code=c")


@pytest.mark.parametrize(
    ("client", "changes"),
    [
        (None, {}),
        (CLIENT, {"redirect_uri": "https://evil.example/"}),
        (KnownClient(id="two", name="Two", redirect_uris=(BACK, BACK + "2")), {"redirect_uri": None}),
    ],
)
def test_where_it_is_not_known_who_asks_no_browser_is_sent_anywhere(
    client: KnownClient | None, changes: dict[str, str | None]
) -> None:
    with pytest.raises(RequestError) as caught:
        authorization(None, client, **changes)
    assert not isinstance(caught.value, RedirectedError)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"response_type": None}, "invalid_request"),
        ({"code_challenge_method": "plain"}, "invalid_request"),
        ({"code_challenge_method": None}, "invalid_request"),
        ({"code_challenge": None}, "invalid_request"),
        ({"code_challenge": "short"}, "invalid_request"),
        ({"resource": None}, "invalid_target"),
        ({"resource": "/mcp"}, "invalid_target"),
        ({"resource": RESOURCE + "#x"}, "invalid_target"),
        ({"resource": "http://[::/"}, "invalid_target"),
        ({"prompt": "none"}, "interaction_required"),
        ({"response_mode": "fragment"}, "invalid_request"),
        ({"request": "x.y.z"}, "request_not_supported"),
        ({"request_uri": "https://evil.example"}, "request_uri_not_supported"),
    ],
)
def test_a_client_is_told_what_is_wrong(changes: dict[str, str | None], error: str) -> None:
    with pytest.raises(RedirectedError) as caught:
        authorization(**changes)
    assert (caught.value.error, caught.value.redirect_uri, caught.value.state) == (error, BACK, "s1")


def test_only_what_is_offered_can_be_had() -> None:
    offer = Offer(scopes=("read",), resources=(RESOURCE,))
    assert authorization(offer, scope=None, resource=None).scopes == ("read",)
    assert authorization(offer, scope=None, resource=None).resource == RESOURCE
    with pytest.raises(RedirectedError, match="invalid_scope"):
        authorization(offer, scope="read write")
    with pytest.raises(RedirectedError, match="invalid_target"):
        authorization(offer, scope="read", resource="http://127.0.0.1:9999/mcp")


def test_a_repeated_field_is_refused() -> None:
    assert read_fields("a=1&b=&c=%C3%A4") == {"a": "1", "c": "ä"}
    for wrong in ("a=1&a=2", "a=%ff", "&".join(f"f{n}=1" for n in range(51))):
        with pytest.raises(RequestError):
            read_fields(wrong)
