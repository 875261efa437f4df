"""Credentials go to the one authorization server that gave them out, in a way that it takes."""

import base64
import os
from typing import Any

import pytest

from dovetail.auth import jwt
from dovetail.auth.client_authentication import ASSERTION, OAuthClient, auth_method, authenticate
from dovetail.auth.errors import AuthorizationFailed, Untrusted
from dovetail.auth.jwk import ALGORITHMS, SigningKey
from dovetail.auth.metadata import AuthorizationServer
from dovetail.protocol.errors import LocalError

ISSUER = "https://auth.example.com"
NOW = 1_800_000_000.0
KEY = SigningKey.generate()
SECRET = OAuthClient(id="me", issuer=ISSUER, secret="s")
PUBLIC = OAuthClient(id="me", issuer=ISSUER)
SIGNING = OAuthClient(id="me", issuer=ISSUER, key=KEY.to_pem(), kid="k1")


def server(*methods: str, **more: Any) -> AuthorizationServer:
    return AuthorizationServer(issuer=ISSUER, token_endpoint_auth_methods_supported=methods or None, **more)


def proof(client: OAuthClient, *methods: str, **more: Any) -> tuple[dict[str, str], dict[str, str]]:
    headers, fields = authenticate(server(*methods, **more), client, now=NOW, random=os.urandom)
    return headers, dict(fields)


@pytest.mark.parametrize(
    ("client", "methods", "expected"),
    [
        (SECRET, (), "client_secret_basic"),
        (SECRET, ("client_secret_post",), "client_secret_post"),
        (SECRET, ("client_secret_post", "client_secret_basic"), "client_secret_basic"),
        (SECRET, ("none",), "none"),
        (PUBLIC, (), "none"),
        (PUBLIC, ("none",), "none"),
        (PUBLIC, ("client_secret_basic",), "none"),
        (SIGNING, (), "private_key_jwt"),
        (SIGNING, ("client_secret_basic", "private_key_jwt"), "private_key_jwt"),
        (
            OAuthClient(id="me", secret="s", auth_method="client_secret_post"),
            ("client_secret_basic",),
            "client_secret_post",
        ),
        (OAuthClient(id="me", secret="s", auth_method="none"), ("client_secret_basic",), "none"),
    ],
)
def test_the_method_that_both_sides_can_do(client: OAuthClient, methods: tuple[str, ...], expected: str) -> None:
    assert auth_method(server(*methods), client) == expected


def test_a_client_without_a_common_method_is_refused() -> None:
    with pytest.raises(AuthorizationFailed, match="tls_client_auth"):
        auth_method(server("tls_client_auth"), SECRET)
    with pytest.raises(LocalError):
        auth_method(server(), OAuthClient(id="me", auth_method="client_secret_basic"))
    with pytest.raises(LocalError):
        auth_method(server(), OAuthClient(id="me", secret="s", auth_method="tls_client_auth"))


def test_basic_encodes_before_it_joins() -> None:
    headers, fields = proof(OAuthClient(id="a:b c", secret="p%:é&", issuer=ISSUER))
    assert base64.b64decode(headers["authorization"].removeprefix("Basic ")) == b"a%3Ab+c:p%25%3A%C3%A9%26"
    assert fields == {}


def test_secrets_in_the_form_and_public_clients() -> None:
    assert proof(SECRET, "client_secret_post") == ({}, {"client_id": "me", "client_secret": "s"})
    assert proof(PUBLIC) == ({}, {"client_id": "me"})


@pytest.mark.parametrize("alg", ALGORITHMS)
def test_a_signed_assertion(alg: str) -> None:
    key = SigningKey.generate(alg, "k1")
    headers, fields = proof(OAuthClient(id="me", issuer=ISSUER, key=key.to_pem(), kid="k1"))
    assert (
        headers == {}
        and fields["client_assertion_type"] == ASSERTION
        and set(fields) == {"client_assertion_type", "client_assertion"}
    )
    claims = jwt.verify(fields["client_assertion"], [key.public])
    jwt.check_claims(claims, now=NOW, issuer="me", audience=[ISSUER], leeway=0)
    assert claims["sub"] == "me" and claims["aud"] == ISSUER
    assert (
        proof(OAuthClient(id="me", issuer=ISSUER, key=key.to_pem()))[1]["client_assertion"]
        != fields["client_assertion"]
    )


def test_an_algorithm_that_the_server_does_not_take() -> None:
    proof(SIGNING, token_endpoint_auth_signing_alg_values_supported=("RS256", "ES256"))
    with pytest.raises(AuthorizationFailed, match="ES256"):
        proof(SIGNING, token_endpoint_auth_signing_alg_values_supported=("RS256",))


def test_a_client_is_bound_where_it_is_first_used() -> None:
    loose = OAuthClient(id="me", secret="s")
    assert loose.at(ISSUER).issuer == ISSUER
    assert loose.at(ISSUER).at(ISSUER).secret == "s"


@pytest.mark.parametrize("other", ["https://evil.example", ISSUER + "/", "https://AUTH.example.com"])
@pytest.mark.parametrize("client", [SECRET, PUBLIC, SIGNING])
def test_credentials_are_for_no_other_server(client: OAuthClient, other: str) -> None:
    with pytest.raises(Untrusted, match="registered with"):
        client.at(other)
    with pytest.raises(Untrusted, match="registered with"):
        authenticate(AuthorizationServer(issuer=other), client, now=NOW, random=os.urandom)


def test_a_document_is_for_all_of_them() -> None:
    portable = OAuthClient(id="https://app.example/client.json", portable=True)
    assert portable.at(ISSUER) is portable
    assert portable.at("https://other.example") is portable


def test_a_secret_that_has_expired_is_not_sent() -> None:
    client = OAuthClient(id="me", issuer=ISSUER, secret="s", secret_until=NOW)
    assert not client.expired(NOW - 1)
    with pytest.raises(AuthorizationFailed, match="expired"):
        proof(client)


def test_secrets_are_not_shown() -> None:
    assert repr(OAuthClient(id="me", secret="HUSH", key="HUSH")) == "OAuthClient(id='me', issuer=None)"
