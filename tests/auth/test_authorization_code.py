"""Where the browser is sent, and which answers are taken.

Proof that a code is exchanged by who asked for it.
"""

import contextlib
import os
import re
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.auth.authorization_code import (
    AuthorizationRequest,
    build_request,
    new_code_verifier,
    pkce_challenge,
    read_response,
)
from dovetail.auth.client_authentication import OAuthClient
from dovetail.auth.errors import AuthorizationFailed, Denied, Untrusted
from dovetail.auth.metadata import AuthorizationServer
from dovetail.protocol.errors import LocalError

ISSUER = "https://auth.example.com"
SERVER = AuthorizationServer(
    issuer=ISSUER,
    authorization_endpoint=ISSUER + "/authorize",
    code_challenge_methods_supported=("S256",),
)
CLIENT = OAuthClient(id="me", issuer=ISSUER)
BACK = "http://127.0.0.1:3000/callback"


def start(server: AuthorizationServer = SERVER, **changes: Any) -> AuthorizationRequest:
    given: dict[str, Any] = {"redirect_uri": BACK, "resource": "https://mcp.example.com/mcp", "scope": ("a", "b")}
    return build_request(server, changes.pop("client", CLIENT), random=os.urandom, **{**given, **changes})


def changed(**more: Any) -> AuthorizationServer:
    return msgspec.structs.replace(SERVER, **more)


LOGIN = start()
EXPECTING = start(changed(authorization_response_iss_parameter_supported=True))


def test_the_url_of_a_request_has_all_parameters() -> None:
    assert LOGIN.url.startswith(ISSUER + "/authorize?")
    assert {name: value for name, [value] in parse_qs(urlsplit(LOGIN.url).query).items()} == {
        "response_type": "code",
        "client_id": "me",
        "redirect_uri": BACK,
        "scope": "a b",
        "state": LOGIN.state,
        "resource": "https://mcp.example.com/mcp",
        "code_challenge": pkce_challenge(LOGIN.verifier),
        "code_challenge_method": "S256",
    }
    assert LOGIN.verifier not in LOGIN.url
    assert LOGIN.verifier not in repr(LOGIN) and LOGIN.state not in repr(LOGIN)


def test_each_request_has_its_own_state_and_verifier() -> None:
    assert len({LOGIN.state, EXPECTING.state, LOGIN.verifier, EXPECTING.verifier}) == 4


def test_without_scopes_the_parameter_is_left_out() -> None:
    assert "scope" not in parse_qs(urlsplit(start(scope=()).url).query, keep_blank_values=True)


def test_to_stay_signed_in_needs_consent() -> None:
    assert parse_qs(urlsplit(start(scope=("a", "offline_access")).url).query)["prompt"] == ["consent"]


def test_a_code_can_be_bound_to_a_key() -> None:
    assert parse_qs(urlsplit(start(dpop_thumbprint="thumb").url).query)["dpop_jkt"] == ["thumb"]


def test_a_query_of_the_endpoint_stays() -> None:
    login = start(changed(authorization_endpoint=ISSUER + "/authorize?tenant=1"))
    assert login.url.startswith(ISSUER + "/authorize?tenant=1&response_type=code")


@pytest.mark.parametrize(
    "query", ["client_id=evil", "redirect_uri=https://evil.example", "state=", "a=1&request_uri=x"]
)
def test_the_endpoint_cannot_set_what_is_ours(query: str) -> None:
    with pytest.raises(Untrusted, match="sets parameters"):
        start(changed(authorization_endpoint=f"{ISSUER}/authorize?{query}"))


def test_no_login_without_pkce() -> None:
    with pytest.raises(Untrusted, match="PKCE"):
        start(changed(code_challenge_methods_supported=()))


def test_no_login_without_a_page() -> None:
    with pytest.raises(AuthorizationFailed, match="no authorization_endpoint"):
        start(changed(authorization_endpoint=None))


def test_no_login_with_the_client_of_another_server() -> None:
    with pytest.raises(Untrusted, match="registered with"):
        start(client=OAuthClient(id="me", issuer="https://other.example"))


@pytest.mark.parametrize("uri", ["http://evil.example/cb", "file:///x", "https://u@x.example/"])
def test_no_login_that_would_give_the_code_away(uri: str) -> None:
    with pytest.raises(LocalError):
        start(redirect_uri=uri)


def answer(login: AuthorizationRequest = LOGIN, **changes: str | None) -> str:
    fields = {"code": "c", "state": login.state, **changes}
    return urlencode({name: value for name, value in fields.items() if value is not None})


@pytest.mark.parametrize("before", ["", "?", BACK + "?", "https://app.example/cb?"])
def test_the_code_of_a_valid_response_is_returned(before: str) -> None:
    assert read_response(LOGIN, before + answer()) == "c"
    assert read_response(LOGIN, before + f"code=c&state={LOGIN.state}&iss=https://auth.example.com") == "c"


@pytest.mark.parametrize(
    ("login", "iss", "taken"),
    [
        # The table of "Authorization Response Validation".
        (EXPECTING, ISSUER, True),
        (EXPECTING, "https://evil.example", False),
        (EXPECTING, None, False),
        (LOGIN, ISSUER, True),
        (LOGIN, "https://evil.example", False),
        (LOGIN, None, True),
        # Nothing is normalised.
        (LOGIN, ISSUER + "/", False),
        (LOGIN, "https://AUTH.example.com", False),
        (LOGIN, "HTTPS://auth.example.com", False),
        (LOGIN, ISSUER + ":443", False),
        (LOGIN, "https://auth.example.c%6Fm", False),
        (LOGIN, "", False),
    ],
)
def test_a_response_of_another_issuer_is_refused(login: AuthorizationRequest, iss: str | None, taken: bool) -> None:
    if taken:
        assert read_response(login, answer(login, iss=iss)) == "c"
    else:
        with pytest.raises(Untrusted, match="iss"):
            read_response(login, answer(login, iss=iss))


@pytest.mark.parametrize(
    "state",
    [None, "", "x", EXPECTING.state, "é", LOGIN.state + " ", LOGIN.state[:-1]],
    ids=["none", "empty", "short", "of another login", "not ASCII", "longer", "shorter"],
)
def test_an_answer_to_something_else(state: str | None) -> None:
    with pytest.raises(Untrusted, match="state"):
        read_response(LOGIN, answer(state=state))


def test_an_error_response_raises_denied() -> None:
    with pytest.raises(Denied, match="access_denied: The user said no"):
        read_response(LOGIN, answer(code=None, error="access_denied", error_description="The user said no"))


@pytest.mark.parametrize("changes", [{"state": "x"}, {"iss": "https://evil.example"}])
def test_words_of_a_stranger_are_not_told(changes: dict[str, str]) -> None:
    with pytest.raises(Untrusted) as caught:
        read_response(LOGIN, answer(LOGIN, **{"error": "call", "error_description": "Call 555-1234", **changes}))
    assert "555" not in str(caught.value) and "evil" not in str(caught.value)


@pytest.mark.parametrize("twice", ["code=evil", "state=x", "iss=https://evil.example", "error=x&error=y"])
def test_a_response_with_a_repeated_parameter_is_refused(twice: str) -> None:
    with pytest.raises(Untrusted, match="twice"):
        read_response(LOGIN, answer(iss=ISSUER) + "&" + twice)


def test_an_answer_without_a_code() -> None:
    for code in (None, ""):
        with pytest.raises(AuthorizationFailed, match="no code"):
            read_response(LOGIN, answer(code=code))


def test_responses_have_bounds_on_length_and_parameters() -> None:
    with pytest.raises(Untrusted, match="too long"):
        read_response(LOGIN, answer() + "&x=" + "y" * 20_000)
    with pytest.raises(Untrusted, match="too many"):
        read_response(LOGIN, answer() + "".join(f"&x{i}=" for i in range(100)))


@given(st.text())
def test_a_response_with_any_other_content_is_refused(text: str) -> None:
    for each in (text, "http://[" + text, "?" + text):
        with pytest.raises(Untrusted):
            read_response(LOGIN, each)


@given(st.dictionaries(st.sampled_from(["code", "iss", "error", "error_description", "x"]), st.text()))
def test_any_fields_are_taken_or_refused(fields: dict[str, str]) -> None:
    with contextlib.suppress(AuthorizationFailed):
        assert read_response(LOGIN, urlencode({**fields, "state": LOGIN.state})) == fields["code"]


def test_the_example_of_the_rfc() -> None:
    assert (
        pkce_challenge("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk") == "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
    )


def test_a_verifier_is_long_enough_and_never_the_same() -> None:
    one, other = new_code_verifier(os.urandom), new_code_verifier(os.urandom)
    assert one != other
    assert re.fullmatch(r"[A-Za-z0-9._~-]{43,128}", one)
