"""Keys: those that can be used, and those that must not be."""

import contextlib
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from hypothesis import given
from hypothesis import strategies as st

from dovetail.auth.errors import TokenRefused
from dovetail.auth.jwk import ALGORITHMS, PublicKey, SigningKey, decode64, encode64, read_key_set
from dovetail.protocol.errors import LocalError

KEYS = {alg: SigningKey.generate(alg, kid=alg) for alg in ALGORITHMS}


@pytest.mark.parametrize("alg", ALGORITHMS)
def test_the_public_key_verifies_signatures_of_the_private_key(alg: str) -> None:
    key = KEYS[alg]
    signature = key.sign(b"content")
    public = PublicKey(key.public.jwk)
    assert key.alg == public.alg == alg and key.kid == alg
    assert public.verify(b"content", signature)
    assert not public.verify(b"Content", signature)
    assert not public.verify(b"content", signature[:-1])
    assert not public.verify(b"content", b"")
    assert not public.verify(b"content", bytes([signature[0] ^ 1]) + signature[1:])


@pytest.mark.parametrize("alg", ALGORITHMS)
def test_a_key_survives_pem(alg: str) -> None:
    again = SigningKey.from_pem(KEYS[alg].to_pem(), kid="x")
    assert again.public.thumbprint == KEYS[alg].public.thumbprint
    assert again.kid == "x"


def test_a_key_does_not_show_itself() -> None:
    assert repr(KEYS["ES256"]) == "SigningKey(ES256)"
    assert "d" not in KEYS["ES256"].public.jwk


def test_the_thumbprint_of_the_rfc_example() -> None:
    n = (
        "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknj"
        "hMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQ"
        "vRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzK"
        "nqDKgw"
    )
    key = PublicKey({"kty": "RSA", "n": n, "e": "AQAB", "alg": "RS256", "kid": "2011-04-29"})
    assert key.thumbprint == "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs"


def bad_keys() -> list[Any]:
    ec_key, rsa_key, ed_key = (KEYS[alg].public.jwk for alg in ALGORITHMS)
    short = SigningKey.generate("RS256").public.jwk["n"]
    return [
        *(None, 1, "x", [], {}, {"kty": 1}, {"kty": []}, {"kty": "oct", "k": "c2VjcmV0"}),
        *(
            {**ec_key, "crv": "P-384"},
            {**ec_key, "crv": "secp256k1"},
            {**ec_key, "x": ec_key["y"]},
            {**ec_key, "x": "AA"},
        ),
        *(
            {**ec_key, "x": None},
            {**ec_key, "x": ec_key["x"] + "="},
            {**ec_key, "x": "!" * 43},
            {"kty": "EC", "crv": "P-256"},
        ),
        *({**rsa_key, "n": short[:100]}, {**rsa_key, "n": "A" * 3000}, {**rsa_key, "e": short}, {**rsa_key, "e": "AA"}),
        *({**ed_key, "crv": "X25519"}, {**ed_key, "x": "AA"}, {**ed_key, "crv": "Ed448"}),
        *(
            {**ec_key, "use": "enc"},
            {**ec_key, "alg": "HS256"},
            {**ec_key, "alg": "ES384"},
            {**ec_key, "key_ops": ["sign"]},
        ),
        *({**rsa_key, "alg": "RSA-OAEP"}, {**ec_key, "key_ops": "verify"}),
    ]


@pytest.mark.parametrize("jwk", bad_keys())
def test_keys_that_must_not_be_used(jwk: Any) -> None:
    with pytest.raises(TokenRefused):
        PublicKey(jwk)


VALUES = st.one_of(
    st.none(), st.text(), st.integers(), st.sampled_from(["EC", "RSA", "OKP", "P-256", "AQAB", "verify"])
)


@given(st.dictionaries(st.sampled_from(["kty", "crv", "x", "y", "n", "e", "use", "alg", "kid", "key_ops"]), VALUES))
def test_any_key_is_read_or_refused(jwk: dict[str, Any]) -> None:
    with contextlib.suppress(TokenRefused):
        assert PublicKey(jwk).alg in ALGORITHMS


def test_a_set_keeps_the_keys_that_can_be_used() -> None:
    good = [{**key.public.jwk, "kid": alg, "use": "sig"} for alg, key in KEYS.items()]
    found = read_key_set({"keys": [good[0], {"kty": "oct", "k": "x"}, "nonsense", good[1], good[2]]})
    assert [key.kid for key in found] == list(ALGORITHMS)
    assert len(read_key_set({"keys": [good[2]] * 1000})) == 100
    for fields in ({}, {"keys": None}, {"keys": {}}):
        with pytest.raises(TokenRefused):
            read_key_set(fields)


def test_keys_of_other_kinds_do_not_sign() -> None:
    for private in (ec.generate_private_key(ec.SECP384R1()),):
        with pytest.raises(LocalError):
            SigningKey(private)
    with pytest.raises(TokenRefused):
        SigningKey(rsa.generate_private_key(65537, 1024))
    with pytest.raises(LocalError):
        SigningKey.generate("HS256")
    for pem in ("", "nonsense", KEYS["ES256"].to_pem()[:60]):
        with pytest.raises(LocalError):
            SigningKey.from_pem(pem)


@given(st.binary())
def test_base64url_goes_there_and_back(content: bytes) -> None:
    assert decode64(encode64(content)) == content


@pytest.mark.parametrize("text", ["A", "AB", "AA==", "A A", "a+b/", "é", None, 1, "AAA\n", "YR"])
def test_base64url_has_one_accepted_encoding(text: Any) -> None:
    with pytest.raises(TokenRefused):
        decode64(text)
