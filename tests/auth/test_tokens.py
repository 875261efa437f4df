"""Tokens, when they are renewed, and how a login is kept."""

import contextlib
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.auth.client_authentication import OAuthClient
from dovetail.auth.errors import AuthorizationFailed, Denied, Untrusted
from dovetail.auth.http import OAuthResponse
from dovetail.auth.tokens import Account, Tokens, read_tokens
from dovetail.protocol.errors import LocalError

NOW = 1_800_000_000.0
ISSUER = "https://auth.example.com"


def read(fields: Any, status: int = 200, **options: Any) -> Tokens:
    body = fields if isinstance(fields, bytes) else msgspec.json.encode(fields)
    return read_tokens(OAuthResponse(status, {}, body), "https://a/token", now=NOW, **options)


def test_a_complete_token_response_is_read() -> None:
    fields = {"access_token": "a", "token_type": "bearer", "expires_in": 3600, "refresh_token": "r", "scope": "x y"}
    found = read({**fields, "id_token": "i", "unknown": [1]})
    assert found == Tokens(
        access_token="a",
        token_type="Bearer",
        obtained_at=NOW,
        expires_at=NOW + 3600,
        refresh_token="r",
        scopes=("x", "y"),
        id_token="i",
    )
    assert found.authorization == "Bearer a"


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (60, 60),
        ("60", 60),
        (1.5, 1.5),
        (-5, 0),
        (None, None),
        ("soon", None),
        (True, None),
        ([], None),
        (1e30, 316224000),
        ("²", None),
    ],
)
def test_the_expiry_of_a_token_is_read(value: Any, seconds: float | None) -> None:
    found = read({"access_token": "a", "token_type": "Bearer", "expires_in": value})
    assert found.expires_at == (None if seconds is None else NOW + seconds)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"error": "invalid_grant", "error_description": "gone"}, Denied),
        ({"access_token": "a"}, AuthorizationFailed),
        ({"token_type": "Bearer"}, AuthorizationFailed),
        ({"access_token": "a b", "token_type": "Bearer"}, AuthorizationFailed),
        ({"access_token": "a\r\nx: y", "token_type": "Bearer"}, AuthorizationFailed),
        ({"access_token": 1, "token_type": "Bearer"}, AuthorizationFailed),
        ({"access_token": "a", "token_type": "mac"}, Untrusted),
        ({"access_token": "a", "token_type": "DPoP"}, Untrusted),
        (b"access_token=a&token_type=bearer", AuthorizationFailed),
        (b"", AuthorizationFailed),
    ],
)
def test_invalid_token_responses_are_refused(fields: Any, problem: type[Exception]) -> None:
    with pytest.raises(problem):
        read(fields)


def test_an_error_tells_what_the_server_said() -> None:
    with pytest.raises(Denied) as caught:
        read({"error": "invalid_grant", "error_description": 7}, 400)
    assert (caught.value.error, caught.value.description, caught.value.status) == ("invalid_grant", "", 400)
    for status in (201, 302, 500):
        with pytest.raises(AuthorizationFailed, match=str(status)):
            read({"access_token": "a", "token_type": "Bearer"}, status)


def test_a_token_of_the_wrong_type_is_not_told() -> None:
    with pytest.raises(Untrusted) as caught:
        read({"access_token": "HUSH", "token_type": "Bearer"}, types=("DPoP",))
    assert "HUSH" not in str(caught.value)


VALUES = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(), st.lists(st.text()))


@given(
    st.dictionaries(
        st.sampled_from(["access_token", "token_type", "expires_in", "scope", "error", "refresh_token"]), VALUES
    )
)
def test_any_answer_is_read_or_refused(fields: dict[str, Any]) -> None:
    with contextlib.suppress(AuthorizationFailed):
        assert read({"token_type": "Bearer", **fields}).access_token.isascii()


@pytest.mark.parametrize(
    ("lasts", "passed", "due", "over"),
    [
        (3600, 0, False, False),
        (3600, 3539, False, False),
        (3600, 3540, True, False),
        (3600, 3600, True, True),
        (100, 89, False, False),
        (100, 90, True, False),
        (0, 0, True, True),
        (None, 1e9, False, False),
    ],
)
def test_a_token_is_refreshed_before_it_expires(lasts: float | None, passed: float, due: bool, over: bool) -> None:
    tokens = Tokens(access_token="a", obtained_at=NOW, expires_at=None if lasts is None else NOW + lasts)
    assert tokens.needs_refresh(NOW + passed) is due
    assert tokens.expired(NOW + passed) is over


def account(**more: Any) -> Account:
    tokens = Tokens(access_token="HUSH-a", refresh_token="HUSH-r", obtained_at=NOW, expires_at=NOW + 60, scopes=("x",))
    client = OAuthClient(id="me", issuer=ISSUER, secret="HUSH-s", redirect_uris=("http://127.0.0.1:1/cb",))
    given: dict[str, Any] = {
        "resource": "https://mcp.example.com",
        "issuer": ISSUER,
        "client": client,
        "tokens": tokens,
    }
    return Account(**{**given, "requested": ("x", "y"), "dpop_key": "HUSH-k", **more})


def test_an_account_can_be_stored_and_loaded() -> None:
    assert Account.decode(account().encode()) == account()


def test_the_repr_shows_no_secrets() -> None:
    assert "HUSH" not in repr(account()) + repr(account().tokens) + str(account())


def test_a_refresh_token_stays_until_there_is_another() -> None:
    kept = account().renewed(Tokens(access_token="b", expires_at=NOW + 99))
    assert (kept.tokens.access_token, kept.tokens.refresh_token, kept.tokens.scopes) == ("b", "HUSH-r", ("x",))
    rotated = kept.renewed(Tokens(access_token="c", refresh_token="r2", scopes=()))
    assert (rotated.tokens.refresh_token, rotated.tokens.scopes, rotated.tokens.expires_at) == ("r2", (), None)


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"\xff", account().encode()[:-5], account(version=2).encode()])
def test_invalid_accounts_are_refused(content: bytes) -> None:
    with pytest.raises(LocalError, match="log in again"):
        Account.decode(content)


def test_a_login_with_the_client_of_another_server_is_not_used() -> None:
    with pytest.raises(LocalError, match="log in again"):
        Account.decode(account(issuer="https://evil.example").encode())
    portable = OAuthClient(id="https://app.example/c.json", portable=True)
    assert Account.decode(account(client=portable).encode()).client == portable


@given(st.binary())
def test_any_other_bytes_are_refused_as_an_account(content: bytes) -> None:
    with pytest.raises(LocalError):
        Account.decode(content)
