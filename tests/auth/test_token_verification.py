"""Which tokens let somebody in, and as whom."""

import contextlib
import os
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.auth import jwt
from dovetail.auth.client_authentication import OAuthClient
from dovetail.auth.dpop import Proof
from dovetail.auth.errors import AuthorizationFailed, TokenRefused, UnknownKey
from dovetail.auth.grants import TokenRequestContext
from dovetail.auth.http import OAuthResponse
from dovetail.auth.jwk import ALGORITHMS, SigningKey
from dovetail.auth.metadata import AuthorizationServer
from dovetail.auth.token_verification import (
    IssuerKeys,
    Principal,
    TokenRules,
    TokenTable,
    check_binding,
    fetch_keys,
    introspect,
    principal_from_claims,
)
from dovetail.protocol.errors import LocalError
from tests.auth.web import Web

ISSUER = "https://auth.example.com"
US = "https://mcp.example.com/mcp"
NOW = 1_800_000_000.0
KEY = SigningKey.generate(kid="k1")
RULES = TokenRules(issuer=ISSUER, audience=(US,))
CLAIMS: dict[str, Any] = {
    "iss": ISSUER,
    "aud": US,
    "sub": "ada",
    "client_id": "app",
    "scope": "read write",
    "exp": NOW + 60,
    "iat": NOW,
}


def check(typ: str = "at+jwt", key: SigningKey = KEY, **changes: Any) -> Principal:
    return RULES.check(jwt.sign({**CLAIMS, **changes}, key, typ), [KEY.public], NOW)


@pytest.mark.parametrize("typ", ["at+jwt", "application/at+jwt", "JWT"])
def test_a_token_for_this_server_is_accepted(typ: str) -> None:
    found = check(typ)
    assert (found.subject, found.client_id, found.scopes) == ("ada", "app", ("read", "write"))
    assert found.lacks(["write", "admin"]) == ("admin",) and found.expires_at == NOW + 60


@pytest.mark.parametrize(
    "changes",
    [
        *(
            {"aud": "https://other.example/mcp"},
            {"aud": None},
            {"aud": "app"},
            {"aud": US + "/"},
            {"iss": "https://evil.example"},
        ),
        *(
            {"exp": NOW - 61},
            {"exp": None},
            {"nbf": NOW + 61},
            {"sub": None, "client_id": None},
            {"sub": 7},
            {"sub": ""},
        ),
        *(
            {"cnf": {"x5t#S256": "x"}},
            {"cnf": "x"},
            {"typ": "dpop+jwt"},
            {"typ": "oauth-id-jag+jwt"},
            {"typ": "logout+jwt"},
        ),
        {"key": SigningKey.generate(kid="k1")},
    ],
)
def test_a_token_that_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(TokenRefused):
        check(**changes)


def test_an_unknown_key_is_reported_as_such() -> None:
    with pytest.raises(UnknownKey):
        check(key=SigningKey.generate(kid="k2"))


@pytest.mark.parametrize(
    "rules",
    [
        {"audience": ()},
        {"audience": ("",)},
        {"issuer": ""},
        {"algorithms": ()},
        {"algorithms": ("none",)},
        {"algorithms": ("HS256",)},
    ],
)
def test_rules_that_would_let_anybody_in(rules: dict[str, Any]) -> None:
    with pytest.raises(LocalError):
        TokenRules(**{"issuer": ISSUER, "audience": (US,), **rules})


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        ({"scope": "a b"}, ("a", "b")),
        ({"scp": "a b"}, ("a", "b")),
        ({"scp": ["a", "b c", 1, "a"]}, ("a",)),
        ({"scope": ["a", "b"]}, ("a", "b")),
        ({"scope": 1}, ()),
        ({}, ()),
    ],
)
def test_scopes_of_a_token(claims: dict[str, Any], expected: tuple[str, ...]) -> None:
    assert principal_from_claims({"sub": "x", **claims}).scopes == expected


def test_a_client_that_acts_for_itself() -> None:
    assert principal_from_claims({"azp": "app"}).subject == "app"


def test_principals_are_told_apart() -> None:
    parts = [
        ("a", "i", None),
        ("a", "j", None),
        ("a", "i", "c"),
        ("b", "i", None),
        (" a", "i", None),
        ("a i", "", None),
    ]
    assert len({Principal(subject=s, issuer=i, client_id=c).key for s, i, c in parts}) == 6


@given(
    st.dictionaries(
        st.sampled_from(["sub", "scope", "scp", "cnf", "client_id", "exp", "iss"]),
        st.one_of(st.none(), st.text(), st.integers(), st.lists(st.text()), st.dictionaries(st.text(), st.text())),
    )
)
def test_any_claims_are_taken_or_refused(claims: dict[str, Any]) -> None:
    with contextlib.suppress(TokenRefused):
        assert principal_from_claims(claims).subject


PLAIN, BOUND = Principal(subject="a"), Principal(subject="a", thumbprint="t")
GOOD, OTHER = Proof("t", "1", NOW), Proof("u", "1", NOW)


@pytest.mark.parametrize(
    ("who", "scheme", "proof", "fits"),
    [
        (PLAIN, "Bearer", None, True),
        (BOUND, "DPoP", GOOD, True),
        (BOUND, "dpop", GOOD, True),
        (BOUND, "Bearer", None, False),
        (BOUND, "Bearer", GOOD, False),
        (BOUND, "DPoP", None, False),
        (BOUND, "DPoP", OTHER, False),
        (PLAIN, "DPoP", GOOD, False),
        (PLAIN, "Basic", None, False),
    ],
)
def test_a_bound_token_needs_its_key(who: Principal, scheme: str, proof: Proof | None, fits: bool) -> None:
    if fits:
        check_binding(who, scheme, proof)
    else:
        with pytest.raises(TokenRefused):
            check_binding(who, scheme, proof)


def test_keys_are_fetched() -> None:
    url = ISSUER + "/keys"
    jwks = {"keys": [{**SigningKey.generate(alg).public.jwk, "kid": alg} for alg in ALGORITHMS]}
    store = Web({url: jwks}).run(fetch_keys(url, NOW))
    assert [key.kid for key in store.keys] == list(ALGORITHMS) and store.fetched_at == NOW
    for page in (404, b"<html>", {"keys": 1}):
        with pytest.raises(AuthorizationFailed):
            Web({url: page}).run(fetch_keys(url, NOW))


def test_keys_are_fetched_again_after_their_time() -> None:
    assert IssuerKeys().is_due(0)
    keys = IssuerKeys((), NOW)
    assert not keys.is_due(NOW + 3599) and keys.is_due(NOW + 3600)
    assert not keys.is_due(NOW + 29, unknown=True) and keys.is_due(NOW + 30, unknown=True)


ASK = ISSUER + "/introspect"
MEANS = TokenRequestContext(
    AuthorizationServer(issuer=ISSUER, introspection_endpoint=ASK), OAuthClient(id="us", secret="s"), NOW, os.urandom
)


def ask(answer: Any) -> Principal:
    web = Web({ASK: answer})
    found = web.run(introspect(MEANS, "the token", [US]))
    assert b"token=the+token" in web.requests[0].body and web.requests[0].headers["authorization"].startswith("Basic ")
    return found


ACTIVE = {"active": True, "aud": US, "sub": "ada", "scope": "read"}


def test_the_authorization_server_is_asked() -> None:
    found = ask({**ACTIVE, "exp": NOW + 9})
    assert (found.subject, found.issuer, found.scopes, found.expires_at) == ("ada", ISSUER, ("read",), NOW + 9)


@pytest.mark.parametrize(
    "answer",
    [
        *(
            {"active": False},
            {},
            {**ACTIVE, "active": "true"},
            {**ACTIVE, "active": 1},
            {**ACTIVE, "aud": "https://other.example"},
        ),
        *(
            {**ACTIVE, "aud": None},
            {**ACTIVE, "exp": NOW - 99},
            {**ACTIVE, "iss": "https://evil.example"},
            {**ACTIVE, "sub": None},
        ),
    ],
)
def test_introspection_refuses_inactive_and_foreign_tokens(answer: dict[str, Any]) -> None:
    with pytest.raises(TokenRefused):
        ask(answer)


def test_introspection_needs_an_endpoint_and_a_client() -> None:
    with pytest.raises(AuthorizationFailed, match="500"):
        ask(OAuthResponse(500))
    with pytest.raises(LocalError):
        Web({}).run(introspect(msgspec.structs.replace(MEANS, client=None), "t", [US]))


def test_static_tokens_are_compared_by_digest() -> None:
    fixed = TokenTable({"HUSH": PLAIN})
    assert fixed.check("HUSH") is PLAIN
    assert "HUSH" not in repr(vars(fixed))
    for token in ("", "hush", "HUSH ", "\udc80"):
        with pytest.raises(TokenRefused):
            fixed.check(token)
    with pytest.raises(LocalError):
        TokenTable({"": PLAIN})


def test_a_principal_of_another_issuer_has_another_name() -> None:
    own, other, unsaid = (Principal(subject="ada", issuer=issuer) for issuer in ("https://a", "https://b", None))
    assert (
        own.name_for_issuer("https://a") == unsaid.name_for_issuer("https://a") == unsaid.name_for_issuer(None) == "ada"
    )
    posing = Principal(subject=other.name_for_issuer("https://a"), issuer="https://a")
    names = {who.name_for_issuer("https://a") for who in (own, other, posing)}
    assert len(names) == 3
    assert other.name_for_issuer(None) == other.name_for_issuer("https://a")
