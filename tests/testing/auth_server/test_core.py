"""What is given for a code or a renewal, when a key is in play; and hosts that are not ours."""

from __future__ import annotations

import os
from typing import Any

import pytest

from dovetail.auth.dpop import Prover
from dovetail.auth.jwk import SigningKey
from dovetail.auth.jwt import parse_unverified
from dovetail.testing.auth_server.authorize_request import Offer
from dovetail.testing.auth_server.clients import KnownClient
from dovetail.testing.auth_server.codes import ApprovedAuthorization
from dovetail.testing.auth_server.core import AuthServerCore
from dovetail.testing.auth_server.errors import RequestError
from tests.testing.auth_server.asks import BACK, CLIENT, NOW, VERIFIER, Dice, authorization

ISSUER = "http://127.0.0.1:8090"
ROBOT = KnownClient(id="robot", name="Robot", grants=("client_credentials",), method="client_secret_basic", secret="s")
MINE, OTHER = Prover(SigningKey.generate()), Prover(SigningKey.generate())


def core() -> AuthServerCore:
    made = AuthServerCore(Offer(), random=Dice(), clock=lambda: NOW, seconds=60)
    made.issuer = ISSUER
    return made


def proof(prover: Prover | None, url: str = f"{ISSUER}/token") -> str:
    return "" if prover is None else prover.prove("POST", url, now=NOW, random=os.urandom)


def exchange(at: AuthServerCore, prover: Prover | None, jkt: str | None = None) -> dict[str, Any]:
    """Tokens for a login that was begun for a key, or for none."""
    code = at.grants.codes.new(ApprovedAuthorization(authorization(dpop_jkt=jkt), "ada", ("read",)), NOW)
    fields = {"grant_type": "authorization_code", "code": code, "redirect_uri": BACK, "code_verifier": VERIFIER}
    return at.issue_tokens(fields, CLIENT, proof(prover))


def renew(at: AuthServerCore, tokens: dict[str, Any], prover: Prover | None) -> dict[str, Any]:
    return at.issue_tokens(
        {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"]}, CLIENT, proof(prover)
    )


def test_a_token_is_bound_to_the_key_that_was_proved() -> None:
    at = core()
    tokens = renew(at, exchange(at, MINE, MINE.thumbprint), MINE)
    assert tokens["token_type"] == "DPoP"
    assert parse_unverified(tokens["access_token"]).claims["cnf"] == {"jkt": MINE.thumbprint}
    assert at.issued == {"authorization_code": 1, "refresh_token": 1}


@pytest.mark.parametrize("prover", [None, OTHER])
def test_a_login_that_was_begun_for_a_key_needs_it(prover: Prover | None) -> None:
    with pytest.raises(RequestError, match="another key"):
        exchange(core(), prover, MINE.thumbprint)


@pytest.mark.parametrize(("first", "second"), [(MINE, OTHER), (MINE, None), (None, MINE)])
def test_a_renewal_needs_the_same_key(first: Prover | None, second: Prover | None) -> None:
    at = core()
    with pytest.raises(RequestError, match="invalid_dpop_proof"):
        renew(at, exchange(at, first), second)


def test_a_proof_is_good_once_and_here() -> None:
    at = core()
    shown = proof(MINE)
    fields = {"grant_type": "client_credentials", "resource": "http://x"}
    at.issue_tokens(fields, ROBOT, shown)
    for wrong in (shown, proof(MINE, "http://127.0.0.1:1/token")):
        with pytest.raises(RequestError) as caught:
            at.issue_tokens(fields, ROBOT, wrong)
        assert caught.value.error == "invalid_dpop_proof"
    assert at.issued == {"client_credentials": 1}


@pytest.mark.parametrize(
    ("host", "ours"),
    [
        ("127.0.0.1:8090", True),
        ("localhost:9", True),
        ("[::1]:8090", True),
        ("127.0.0.1.evil.example", False),
        ("evil.example", False),
        ("", False),
        ("[::", False),
    ],
)
def test_the_host_header_is_checked(host: str, ours: bool) -> None:
    assert core().accepts_host(host) is ours
