"""The ways to a token, and where none of them leads."""

import os
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs

import msgspec
import pytest

from dovetail.auth import dpop, grants
from dovetail.auth.authorization_code import AuthorizationRequest, build_request
from dovetail.auth.client_authentication import OAuthClient
from dovetail.auth.dpop import Prover
from dovetail.auth.errors import AuthorizationFailed, Denied, Untrusted
from dovetail.auth.grants import TokenRequestContext
from dovetail.auth.http import Flow, OAuthRequest, OAuthResponse, T
from dovetail.auth.jwk import SigningKey
from dovetail.auth.metadata import AuthorizationServer
from dovetail.auth.tokens import Tokens
from tests.auth.web import Web

ISSUER = "https://auth.example.com"
TOKEN = ISSUER + "/token"
RESOURCE = "https://mcp.example.com/mcp"
NOW = 1_800_000_000.0
SERVER = AuthorizationServer(
    issuer=ISSUER,
    authorization_endpoint=ISSUER + "/authorize",
    token_endpoint=TOKEN,
    revocation_endpoint=ISSUER + "/revoke",
    code_challenge_methods_supported=("S256",),
)
PUBLIC = OAuthClient(id="me", issuer=ISSUER)
SECRET = OAuthClient(id="me", issuer=ISSUER, secret="s", auth_method="client_secret_post")
GOOD = {"access_token": "a", "token_type": "Bearer", "expires_in": 60}


def means(
    client: OAuthClient | None = PUBLIC, server: AuthorizationServer = SERVER, prover: Prover | None = None
) -> TokenRequestContext:
    return TokenRequestContext(server, client, NOW, os.urandom, prover)


def login(client: OAuthClient = PUBLIC) -> AuthorizationRequest:
    return build_request(
        SERVER, client, redirect_uri="http://127.0.0.1:1/cb", resource=RESOURCE, scope=("x",), random=os.urandom
    )


def run(flow: Flow[T], answer: Any = None) -> tuple[T, dict[str, str]]:
    web = Web({TOKEN: GOOD if answer is None else answer})
    result = web.run(flow)
    [request] = web.requests
    assert request.method == "POST"
    return result, form(request)


def form(request: OAuthRequest) -> dict[str, str]:
    return {name: value for name, [value] in parse_qs(request.body.decode(), strict_parsing=True).items()}


def test_an_authorization_code_is_exchanged() -> None:
    begun = login()
    tokens, fields = run(grants.exchange_code(means(), begun, "the code"))
    assert tokens == Tokens(access_token="a", obtained_at=NOW, expires_at=NOW + 60)
    assert fields == {
        "grant_type": "authorization_code",
        "code": "the code",
        "redirect_uri": "http://127.0.0.1:1/cb",
        "code_verifier": begun.verifier,
        "resource": RESOURCE,
        "client_id": "me",
    }


def test_a_refresh_keeps_what_is_not_given_anew() -> None:
    old = Tokens(access_token="old", refresh_token="r1", scopes=("x",))
    tokens, fields = run(grants.refresh(means(SECRET), old, RESOURCE))
    assert (tokens.access_token, tokens.refresh_token, tokens.scopes) == ("a", "r1", ("x",))
    assert fields == {
        "grant_type": "refresh_token",
        "refresh_token": "r1",
        "resource": RESOURCE,
        "client_id": "me",
        "client_secret": "s",
    }


def test_a_refresh_token_that_is_rotated() -> None:
    tokens, _ = run(
        grants.refresh(means(), Tokens(access_token="o", refresh_token="r1"), RESOURCE), {**GOOD, "refresh_token": "r2"}
    )
    assert tokens.refresh_token == "r2"


def test_a_refresh_token_that_was_revoked() -> None:
    answer = OAuthResponse(400, {}, b'{"error": "invalid_grant"}')
    with pytest.raises(Denied) as caught:
        run(grants.refresh(means(), Tokens(access_token="o", refresh_token="HUSH"), RESOURCE), answer)
    assert caught.value.error == "invalid_grant" and "HUSH" not in str(caught.value)


def test_no_refresh_without_a_token() -> None:
    with pytest.raises(AuthorizationFailed, match="log in again"):
        run(grants.refresh(means(), Tokens(access_token="o"), RESOURCE))


def test_client_credentials_are_exchanged_for_a_token() -> None:
    _, fields = run(grants.client_credentials(means(SECRET), RESOURCE, ("a", "b")))
    assert fields == {
        "grant_type": "client_credentials",
        "resource": RESOURCE,
        "scope": "a b",
        "client_id": "me",
        "client_secret": "s",
    }
    _, fields = run(
        grants.client_credentials(means(OAuthClient(id="me", key=SigningKey.generate().to_pem())), RESOURCE)
    )
    assert set(fields) == {"grant_type", "resource", "client_assertion_type", "client_assertion"}
    with pytest.raises(AuthorizationFailed, match="secret or a key"):
        run(grants.client_credentials(means(PUBLIC), RESOURCE))


def test_an_assertion_is_exchanged_for_a_token() -> None:
    _, fields = run(grants.jwt_bearer(means(PUBLIC), "j.w.t", RESOURCE, ("a",)))
    assert fields == {
        "grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer",
        "assertion": "j.w.t",
        "resource": RESOURCE,
        "scope": "a",
        "client_id": "me",
    }
    _, fields = run(grants.jwt_bearer(means(None), "j.w.t", RESOURCE))
    assert "client_id" not in fields


@pytest.mark.parametrize("error", ["invalid_grant", "invalid_scope", "unauthorized_client", "use_dpop_nonce"])
def test_a_grant_that_is_refused_is_not_tried_again(error: str) -> None:
    web = Web({TOKEN: OAuthResponse(400, {"dpop-nonce": "n"}, msgspec.json.encode({"error": error}))})
    with pytest.raises(Denied, match=error):
        web.run(grants.jwt_bearer(means(), "j.w.t", RESOURCE))
    assert len(web.requests) == 1


JAG = {"access_token": "jag", "token_type": "N_A", "issued_token_type": grants.ID_JAG, "expires_in": 300}


def test_an_identity_token_is_exchanged_for_a_grant() -> None:
    flow = grants.identity_assertion(
        means(SECRET), "id token", audience="https://as.example/", resource=RESOURCE, scope=("a",)
    )
    result, fields = run(flow, JAG)
    assert result == "jag"
    assert fields == {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "requested_token_type": "urn:ietf:params:oauth:token-type:id-jag",
        "audience": "https://as.example/",
        "resource": RESOURCE,
        "scope": "a",
        "subject_token": "id token",
        "subject_token_type": "urn:ietf:params:oauth:token-type:id_token",
        "client_id": "me",
        "client_secret": "s",
    }


@pytest.mark.parametrize("answer", [{**JAG, "issued_token_type": None}, {**JAG, "issued_token_type": "x"}, GOOD])
def test_another_token_than_the_assertion(answer: dict[str, Any]) -> None:
    with pytest.raises(Untrusted):
        run(grants.identity_assertion(means(SECRET), "t", audience="x", resource=RESOURCE), answer)


EXCHANGED = {**GOOD, "issued_token_type": grants.ACCESS_TOKEN}


def test_the_token_of_a_caller_is_exchanged_for_another() -> None:
    flow = grants.token_exchange(means(SECRET), "theirs", RESOURCE, ("a",), audience="notes")
    result, fields = run(flow, EXCHANGED)
    assert result.access_token == GOOD["access_token"]
    assert fields == {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "requested_token_type": "urn:ietf:params:oauth:token-type:access_token",
        "audience": "notes",
        "resource": RESOURCE,
        "scope": "a",
        "subject_token": "theirs",
        "subject_token_type": "urn:ietf:params:oauth:token-type:access_token",
        "client_id": "me",
        "client_secret": "s",
    }


@pytest.mark.parametrize(
    "answer", [GOOD, {**EXCHANGED, "issued_token_type": grants.ID_TOKEN}, {**EXCHANGED, "access_token": "theirs"}]
)
def test_an_exchange_gives_an_access_token_and_not_the_one_that_was_given(answer: dict[str, Any]) -> None:
    with pytest.raises(Untrusted):
        run(grants.token_exchange(means(SECRET), "theirs", RESOURCE), answer)


def test_a_token_is_revoked() -> None:
    web = Web({ISSUER + "/revoke": OAuthResponse(200)})
    assert web.run(grants.revoke(means(SECRET), "r", "refresh_token"))
    assert form(web.requests[0]) == {
        "token": "r",
        "token_type_hint": "refresh_token",
        "client_id": "me",
        "client_secret": "s",
    }
    assert not Web({}).run(grants.revoke(means(SECRET), "r", "refresh_token"))
    assert not Web({}).run(grants.revoke(means(SECRET, AuthorizationServer(issuer=ISSUER)), "r", "refresh_token"))


# Proofs of possession.


def wanting_nonce(nonce: str) -> Callable[[OAuthRequest], OAuthResponse]:
    def answer(request: OAuthRequest) -> OAuthResponse:
        try:
            dpop.verify(request.headers["dpop"], "POST", TOKEN, now=NOW, nonces=[nonce])
        except dpop.NonceNeeded:
            return OAuthResponse(400, {"dpop-nonce": nonce}, b'{"error": "use_dpop_nonce"}')
        return OAuthResponse(200, {}, msgspec.json.encode({**GOOD, "token_type": "DPoP"}))

    return answer


def test_a_token_is_bound_to_a_key() -> None:
    prover = Prover(SigningKey.generate())
    web = Web({TOKEN: {**GOOD, "token_type": "dpop"}})
    tokens = web.run(grants.exchange_code(means(prover=prover), login(), "c"))
    assert tokens.authorization == "DPoP a"
    proof = dpop.verify(web.requests[0].headers["dpop"], "POST", TOKEN, now=NOW)
    assert proof.thumbprint == prover.thumbprint


def test_a_nonce_is_taken_up_once() -> None:
    prover = Prover(SigningKey.generate())
    client = OAuthClient(id="me", issuer=ISSUER, key=SigningKey.generate().to_pem())
    web = Web({TOKEN: wanting_nonce("n1")})
    assert web.run(grants.client_credentials(means(client, prover=prover), RESOURCE)).token_type == "DPoP"
    assert len(web.requests) == 2
    # Neither the proof nor the assertion is used twice.
    assert web.requests[0].headers["dpop"] != web.requests[1].headers["dpop"]
    assert form(web.requests[0])["client_assertion"] != form(web.requests[1])["client_assertion"]
    # The next time it is known.
    web.run(grants.client_credentials(means(client, prover=prover), RESOURCE))
    assert len(web.requests) == 3


def test_a_server_that_wants_one_nonce_after_another() -> None:
    count = iter(range(100))

    def answer(request: OAuthRequest) -> OAuthResponse:
        return OAuthResponse(400, {"dpop-nonce": str(next(count))}, b'{"error": "use_dpop_nonce"}')

    web = Web({TOKEN: answer})
    with pytest.raises(Denied, match="use_dpop_nonce"):
        web.run(grants.jwt_bearer(means(prover=Prover(SigningKey.generate())), "j", RESOURCE))
    assert len(web.requests) == 2


def test_a_token_that_is_not_bound_is_refused() -> None:
    with pytest.raises(Untrusted, match="DPoP was requested"):
        run(grants.jwt_bearer(means(prover=Prover(SigningKey.generate())), "j", RESOURCE))


def test_a_server_that_cannot_check_our_proofs() -> None:
    server = msgspec.structs.replace(SERVER, dpop_signing_alg_values_supported=("RS256",))
    with pytest.raises(AuthorizationFailed, match="ES256"):
        run(grants.jwt_bearer(means(server=server, prover=Prover(SigningKey.generate())), "j", RESOURCE))


# Attacks.


def nothing_sent(flow: Flow[Any], match: str) -> None:
    web = Web({})
    with pytest.raises(Untrusted, match=match):
        web.run(flow)
    assert web.requests == []


EVIL = msgspec.structs.replace(SERVER, issuer="https://evil.example", token_endpoint="https://evil.example/token")


def test_a_code_goes_to_no_other_server() -> None:
    for client in (
        PUBLIC,
        OAuthClient(id="me"),
        OAuthClient(id="me", issuer="https://evil.example"),
        OAuthClient(id="me", portable=True),
    ):
        nothing_sent(grants.exchange_code(means(client, EVIL), login(), "c"), "only at the server, and by the client")


def test_a_code_is_exchanged_only_by_the_client_that_requested_it() -> None:
    nothing_sent(
        grants.exchange_code(means(OAuthClient(id="other", issuer=ISSUER)), login(), "c"),
        "only at the server, and by the client",
    )


def test_secrets_go_to_no_other_server() -> None:
    old = Tokens(access_token="o", refresh_token="r")
    for flow in (
        grants.refresh(means(SECRET, EVIL), old, RESOURCE),
        grants.client_credentials(means(SECRET, EVIL), RESOURCE),
        grants.jwt_bearer(means(SECRET, EVIL), "j", RESOURCE),
        grants.revoke(means(SECRET, EVIL), "r", "refresh_token"),
    ):
        nothing_sent(flow, "registered with")


def test_a_redirect_of_a_token_endpoint_is_not_followed() -> None:
    web = Web({TOKEN: OAuthResponse(307, {"location": "https://evil.example/token"})})
    with pytest.raises(AuthorizationFailed, match="307"):
        web.run(grants.exchange_code(means(), login(), "c"))
    assert web.urls == [TOKEN]


def test_a_server_without_a_token_endpoint_is_refused() -> None:
    with pytest.raises(AuthorizationFailed, match="no token endpoint"):
        run(grants.jwt_bearer(means(server=AuthorizationServer(issuer=ISSUER)), "j", RESOURCE))
