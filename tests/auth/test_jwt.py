"""Tokens that are signed, and all the ways in which one is not."""

import contextlib
import hashlib
import hmac
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.auth import jwt
from dovetail.auth.errors import TokenRefused, UnknownKey
from dovetail.auth.jwk import ALGORITHMS, SigningKey, encode64

KEYS = {alg: SigningKey.generate(alg, kid=f"my-{alg}") for alg in ALGORITHMS}
KEY = KEYS["ES256"]
NOW = 1_800_000_000.0
CLAIMS: dict[str, Any] = {
    "iss": "https://auth.example.com",
    "aud": "https://mcp.example.com",
    "exp": NOW + 300,
    "sub": "u",
}


def pack(header: Any, claims: Any, signature: bytes = b"") -> str:
    return ".".join(encode64(msgspec.json.encode(part)) for part in (header, claims)) + "." + encode64(signature)


@pytest.mark.parametrize("alg", ALGORITHMS)
def test_the_claims_of_a_signed_token_are_returned(alg: str) -> None:
    publics = [key.public for key in KEYS.values()]
    assert jwt.verify(jwt.sign(CLAIMS, KEYS[alg]), publics) == CLAIMS


def test_a_token_that_names_no_key_is_tried_with_all_of_its_algorithm() -> None:
    token = jwt.sign(CLAIMS, SigningKey(KEY._private))
    assert jwt.verify(token, [SigningKey.generate().public, KEYS["RS256"].public, KEY.public]) == CLAIMS


def test_a_token_of_another_issuer_of_the_rfc() -> None:
    # RFC 8037, appendix A.4 and A.5.
    public = {"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}
    from dovetail.auth.jwk import PublicKey, decode64

    content = b"eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc"
    signature = "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg"
    assert PublicKey(public).verify(content, decode64(signature))


def refused(token: str, match: str | None = None, **options: Any) -> None:
    with pytest.raises(TokenRefused, match=match):
        jwt.verify(token, [KEY.public], **options)


def test_no_signature_is_not_enough() -> None:
    for alg in ("none", "None", "NONE", "nOnE", "", None, 0, []):
        refused(pack({"alg": alg}, CLAIMS), "algorithm")
    refused(pack({}, CLAIMS), "algorithm")
    refused(pack({"alg": "ES256"}, CLAIMS), "signature")


def test_a_public_key_is_no_shared_secret() -> None:
    for secret in (msgspec.json.encode(KEY.public.jwk), KEY.public.jwk["x"].encode()):
        content = pack({"alg": "HS256", "kid": KEY.kid}, CLAIMS).rpartition(".")[0]
        mac = hmac.new(secret, content.encode(), hashlib.sha256).digest()
        refused(f"{content}.{encode64(mac)}", "algorithm")


def test_a_key_in_the_header_is_not_believed() -> None:
    mine = SigningKey.generate(kid=KEY.kid)
    for header in ({"jwk": mine.public.jwk}, {"jku": "https://evil.example/keys"}, {"x5u": "https://evil.example/x"}):
        refused(jwt.sign(CLAIMS, mine, header={"kid": KEY.kid, **header}), "signature")


def test_the_algorithm_is_the_one_of_the_key() -> None:
    with pytest.raises(UnknownKey):
        jwt.verify(jwt.sign(CLAIMS, KEYS["EdDSA"], header={"kid": KEY.kid}), [KEY.public])
    refused(jwt.sign(CLAIMS, KEY), "algorithm", algorithms=["RS256"])
    refused(pack({"alg": "HS256"}, CLAIMS), "algorithm", algorithms=["HS256"])


def test_an_unknown_key_is_told_apart() -> None:
    with pytest.raises(UnknownKey):
        jwt.verify(jwt.sign(CLAIMS, SigningKey.generate(kid="new")), [KEY.public])


def test_extensions_are_not_known() -> None:
    refused(jwt.sign(CLAIMS, KEY, header={"crit": ["b64"], "b64": False}), "extension")
    refused(jwt.sign(CLAIMS, KEY, header={"kid": 7}), "not a string")


def test_only_expected_token_types_are_accepted() -> None:
    token = jwt.sign(CLAIMS, KEY, "application/AT+JWT")
    assert jwt.verify(token, [KEY.public], typ=["at+jwt"]) == CLAIMS
    refused(token, "another type", typ=["dpop+jwt"])
    refused(pack({"alg": "ES256", "typ": 1}, CLAIMS), "another type", typ=["jwt"])


def test_every_changed_letter_is_found() -> None:
    token = jwt.sign({"sub": "u"}, KEYS["EdDSA"])
    for place, letter in enumerate(token):
        changed = token[:place] + ("A" if letter != "A" else "B") + token[place + 1 :]
        with pytest.raises(TokenRefused):
            jwt.verify(changed, [KEYS["EdDSA"].public])


@pytest.mark.parametrize(
    "token",
    [
        "",
        ".",
        "..",
        "...",
        "a.b.c",
        "é.é.é",
        "W10.W10.",
        jwt.sign(CLAIMS, KEY) + ".",
        jwt.sign(CLAIMS, KEY) + "=",
        "e30.e30." * 2,
    ],
)
def test_malformed_tokens_are_refused(token: str) -> None:
    refused(token)


def test_tokens_that_are_too_long_or_deep_are_refused() -> None:
    refused("e30." + "A" * jwt.MAX_TOKEN + ".e30", "compact")
    deep = encode64(b'{"a":' + b"[" * 5000)
    refused(f"{deep}.{deep}.AA", "no JSON object")


@given(st.text(alphabet="eyJhb.-_= 0{}", max_size=80))
def test_any_other_text_is_refused_as_a_token(text: str) -> None:
    refused(text)


def check(**changes: Any) -> None:
    claims = {**CLAIMS, **changes}
    jwt.check_claims(claims, now=NOW, issuer="https://auth.example.com", audience=["https://mcp.example.com"])


def test_tokens_with_correct_claims_are_accepted() -> None:
    check()
    check(aud=["https://other.example", "https://mcp.example.com"])
    check(exp=NOW - 59)
    check(nbf=NOW + 59, iat=NOW + 59)
    check(nbf=0, iat=NOW - 1e6, exp=NOW + 0.5)


@pytest.mark.parametrize(
    "changes",
    [
        *(
            {"iss": None},
            {"iss": "https://auth.example.com/"},
            {"iss": ["https://auth.example.com"]},
            {"iss": "https://evil.com"},
        ),
        *(
            {"aud": None},
            {"aud": []},
            {"aud": "https://mcp.example.com/"},
            {"aud": "https://other.example"},
            {"aud": [None, 1]},
        ),
        *({"aud": {"https://mcp.example.com": 1}}, {"aud": "https://mcp.example.com https://x"}),
        *(
            {"exp": None},
            {"exp": NOW - 60},
            {"exp": "9999999999"},
            {"exp": True},
            {"exp": -1},
            {"exp": 1e300},
            {"exp": []},
        ),
        *({"nbf": NOW + 61}, {"iat": NOW + 61}, {"nbf": "x"}, {"iat": False}),
    ],
)
def test_tokens_with_wrong_claims_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(TokenRefused):
        check(**changes)


@given(
    st.dictionaries(
        st.sampled_from(["iss", "aud", "exp", "nbf", "iat"]),
        st.one_of(st.none(), st.floats(), st.text(), st.lists(st.text())),
    )
)
def test_any_claims_are_taken_or_refused(claims: dict[str, Any]) -> None:
    with contextlib.suppress(TokenRefused):
        jwt.check_claims(claims, now=NOW, issuer="i", audience=["a"])
        assert claims["iss"] == "i"
