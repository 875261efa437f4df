"""Proofs that a request comes from who holds a key."""

import os
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.auth import dpop, jwt
from dovetail.auth.dpop import NonceNeeded, Proof, Prover, UsedProofs, verify
from dovetail.auth.errors import TokenRefused
from dovetail.auth.jwk import ALGORITHMS, SigningKey

URL = "https://mcp.example.com/mcp"
NOW = 1_800_000_000.0
KEY = SigningKey.generate(kid="not shown")
PROVER = Prover(KEY)


def prove(prover: Prover = PROVER, method: str = "POST", url: str = URL, token: str | None = "t") -> str:
    return prover.prove(method, url, now=NOW, random=os.urandom, token=token)


def check(proof: str, **changes: Any) -> Proof:
    given: dict[str, Any] = {"method": "POST", "url": URL, "now": NOW, "token": "t", "thumbprint": PROVER.thumbprint}
    return verify(proof, **{**given, **changes})


def signed(header: dict[str, Any] | None = None, typ: str = "dpop+jwt", **changes: Any) -> str:
    claims = {"jti": "1", "htm": "POST", "htu": URL, "iat": int(NOW), "ath": dpop.token_hash("t"), **changes}
    claims = {name: value for name, value in claims.items() if value is not None}
    return jwt.sign(claims, KEY, typ, {"jwk": KEY.public.jwk} if header is None else header)


@pytest.mark.parametrize("alg", ALGORITHMS)
def test_a_valid_proof_is_accepted(alg: str) -> None:
    prover = Prover(SigningKey.generate(alg))
    assert check(prove(prover), thumbprint=prover.thumbprint).thumbprint == prover.thumbprint


def test_a_proof_contains_method_url_and_token_hash() -> None:
    parts = jwt.parse_unverified(prove(url=URL + "?a=b#c"))
    assert parts.header == {"alg": "ES256", "typ": "dpop+jwt", "jwk": KEY.public.jwk}
    assert set(parts.claims) == {"jti", "htm", "htu", "iat", "ath"}
    assert parts.claims["htu"] == URL
    # RFC 9449, section 7.1: the hash of its example token.
    assert (
        dpop.token_hash("Kz~8mXK1EalYznwH-LC-1fBAo.4Ljp~zsPE_NeO.gxU") == "fUHyO2r2Z3DZ53EsNrWBb0xWXoaNy59IiKCAqksmQEo"
    )


def test_the_example_of_the_rfc() -> None:
    # RFC 9449, section 4.1.
    proof = (
        "eyJ0eXAiOiJkcG9wK2p3dCIsImFsZyI6IkVTMjU2IiwiandrIjp7Imt0eSI6IkVDIiwieCI6Imw4dEZyaHgtMzR0VjNoUklDUkRZOXpDa0RscEJoRjQy"
        "VVFVZldWQVdCRnMiLCJ5IjoiOVZFNGpmX09rX282NHpiVFRsY3VOSmFqSG10NnY5VERWclUwQ2R2R1JEQSIsImNydiI6IlAtMjU2In19.eyJqdGkiOiIt"
        "QndDM0VTYzZhY2MybFRjIiwiaHRtIjoiUE9TVCIsImh0dSI6Imh0dHBzOi8vc2VydmVyLmV4YW1wbGUuY29tL3Rva2VuIiwiaWF0IjoxNTYyMjYyNjE2fQ"
        ".2-GxA6T8lP4vfrg8v-FdWP0A0zdrj8igiMLvqRMUvwnQg4PtFLbdLXiOSsX0x7NVY-FNyJK70nfbV37xRZT3Lg"
    )
    found = verify(proof, "POST", "https://server.example.com/token", now=1562262616)
    assert found.thumbprint == "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"


def test_each_proof_has_its_own_id() -> None:
    assert check(prove()).id != check(prove()).id


def test_the_same_place_spelled_otherwise() -> None:
    check(signed(htu="HTTPS://MCP.example.com:443/mcp"))
    check(signed(htu="https://mcp.example.com/mcp?x#y"), url=URL + "?z")


@pytest.mark.parametrize(
    "changes",
    [
        *(
            {"jti": None},
            {"jti": ""},
            {"jti": 1},
            {"htm": "GET"},
            {"htm": "post"},
            {"htm": None},
            {"htu": None},
            {"htu": 1},
        ),
        *(
            {"htu": "https://evil.example.com/mcp"},
            {"htu": URL + "/x"},
            {"htu": "http://mcp.example.com/mcp"},
            {"htu": "https://[x"},
        ),
        *(
            {"iat": None},
            {"iat": int(NOW) - 61},
            {"iat": int(NOW) + 6},
            {"iat": "x"},
            {"ath": None},
            {"ath": dpop.token_hash("u")},
        ),
        *({"ath": 1}, {"typ": "JWT"}, {"typ": ""}, {"header": {}}, {"header": {"jwk": None}}, {"header": {"jwk": "x"}}),
        *({"header": {"jwk": {"kty": "oct", "k": "AA"}}}, {"header": {"jwk": {**KEY.public.jwk, "d": "AA"}}}),
        *(
            {"header": {"jwk": SigningKey.generate().public.jwk}},
            {"header": {"jwk": SigningKey.generate("EdDSA").public.jwk}},
        ),
        {"header": {"jwk": KEY.public.jwk, "crit": ["x"]}},
    ],
)
def test_proofs_that_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(TokenRefused):
        check(signed(**changes))


def test_a_proof_serves_no_other_request_and_no_other_token() -> None:
    proof = prove()
    for changes in ({"method": "GET"}, {"url": URL + "2"}, {"token": "other"}, {"now": NOW + 61}, {"now": NOW - 6}):
        with pytest.raises(TokenRefused):
            check(proof, **changes)
    with pytest.raises(TokenRefused, match="bound to another key"):
        check(proof, thumbprint=Prover(SigningKey.generate()).thumbprint)


@given(st.text(max_size=50))
def test_any_other_text_is_refused_as_a_proof(text: str) -> None:
    with pytest.raises(TokenRefused):
        check(text)


def test_a_required_nonce_must_be_current() -> None:
    prover = Prover(KEY)
    with pytest.raises(NonceNeeded):
        check(prove(prover), nonces=["n1"])
    assert prover.store_nonce(URL, {"dpop-nonce": "n1"})
    check(prove(prover), nonces=["n1"])
    assert not prover.store_nonce(URL, {"dpop-nonce": "n1"})
    assert not prover.store_nonce(URL, {})
    assert not prover.store_nonce(URL, {"dpop-nonce": "x" * 2000})
    assert prover.store_nonce("https://mcp.example.com/other", {"dpop-nonce": "n2"})
    with pytest.raises(NonceNeeded):
        check(prove(prover), nonces=["n1"])
    check(prove(prover), nonces=["n1", "n2"])


def test_a_nonce_goes_to_its_server_only() -> None:
    prover = Prover(KEY)
    prover.store_nonce("https://auth.example.com/token", {"dpop-nonce": "theirs"})
    assert "nonce" not in jwt.parse_unverified(prove(prover)).claims


def test_a_proof_is_accepted_once() -> None:
    replays, proof = UsedProofs(), check(prove())
    replays.admit(proof, NOW)
    with pytest.raises(TokenRefused, match="before"):
        replays.admit(proof, NOW)
    with pytest.raises(TokenRefused, match="before"):
        replays.admit(proof, proof.until - 0.1)
    replays.admit(check(prove()), NOW)


def test_another_key_may_use_the_same_identifier() -> None:
    claims = {"jti": "1", "htm": "POST", "htu": URL, "iat": int(NOW), "ath": dpop.token_hash("t")}
    replays, other = UsedProofs(), SigningKey.generate()
    replays.admit(check(signed()), NOW)
    replays.admit(check(jwt.sign(claims, other, "dpop+jwt", {"jwk": other.public.jwk}), thumbprint=None), NOW)


def test_proofs_are_forgotten_when_they_are_too_old_anyway() -> None:
    replays = UsedProofs(most=3)
    for number in range(3):
        replays.admit(Proof("k", str(number), NOW + number), NOW - 1)
    with pytest.raises(TokenRefused, match="Too many"):
        replays.admit(Proof("k", "x", NOW + 9), NOW - 1)
    replays.admit(Proof("k", "x", NOW + 9), NOW + 1)
    assert len(replays) == 2


def test_a_proof_cannot_be_used_after_it_was_forgotten() -> None:
    proof = check(signed(iat=int(NOW) + 5))
    with pytest.raises(TokenRefused, match="too old"):
        check(signed(iat=int(NOW) + 5), now=proof.until)
