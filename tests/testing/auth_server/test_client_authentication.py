"""A client proves who it is in one way, its own."""

from base64 import b64encode
from typing import Any

import pytest

from dovetail.auth import jwt
from dovetail.auth.client_authentication import ASSERTION
from dovetail.auth.jwk import SigningKey
from dovetail.testing.auth_server.client_authentication import parse_credentials, verify_credentials
from dovetail.testing.auth_server.clients import KnownClient
from dovetail.testing.auth_server.errors import RequestError
from dovetail.testing.auth_server.expiring_map import ExpiringMap
from tests.testing.auth_server.asks import CLIENT, NOW

KEY = SigningKey.generate()
ROBOT = KnownClient(id="a b:c", name="Robot", method="client_secret_basic", secret="s+%")
SIGNER = KnownClient(id="signer", name="Signer", method="private_key_jwt", key=KEY.public)
CLIENTS = {client.id: client for client in (CLIENT, ROBOT, SIGNER)}


def basic(name: str, secret: str) -> str:
    return f"Basic {b64encode(f'{name}:{secret}'.encode()).decode()}"


def assertion(key: SigningKey = KEY, **changes: Any) -> dict[str, str]:
    claims = {"iss": "signer", "sub": "signer", "aud": "http://me", "jti": "1", "exp": NOW + 60, **changes}
    return {"client_assertion_type": ASSERTION, "client_assertion": jwt.sign(claims, key)}


def identify(authorization: str = "", used: ExpiringMap[bool] | None = None, /, **fields: str) -> str:
    shown = parse_credentials(authorization, fields)
    known = CLIENTS.get(shown.client_id)
    return verify_credentials(
        shown, known, audience=("http://me",), used=ExpiringMap(600) if used is None else used, now=NOW
    ).name


def test_every_authentication_method_is_accepted() -> None:
    assert identify(client_id="desk") == "Desk"
    assert identify(basic("a+b%3Ac", "s%2B%25")) == "Robot"
    assert identify(client_id="a b:c", client_secret="s+%") == "Robot"
    assert identify(**assertion()) == "Signer"
    assert identify(client_id="signer", **assertion()) == "Signer"


@pytest.mark.parametrize(
    ("authorization", "fields"),
    [
        ("", {}),
        ("", {"client_id": "nobody"}),
        ("", {"client_id": "a b:c"}),
        ("", {"client_id": "signer"}),
        ("", {"client_id": "a b:c", "client_secret": "wrong"}),
        ("", {"client_secret": "s+%"}),
        ("", {"client_id": "desk", "client_secret": "s+%"}),
        (basic("a+b%3Ac", "wrong"), {}),
        (basic("a+b%3Ac", "s%2B%25"), {"client_id": "desk"}),
        (basic("a+b%3Ac", "s%2B%25"), {"client_id": "a b:c", "client_secret": "s+%"}),
        ("Basic nonsense!", {}),
        ("Basic bm9jb2xvbg==", {}),
        ("Bearer token", {}),
        ("", assertion(SigningKey.generate())),
        ("", assertion(aud="http://other")),
        ("", assertion(exp=NOW - 100)),
        ("", assertion(exp=NOW + 9000)),
        ("", assertion(iss="desk")),
        ("", assertion(jti=None)),
        ("", assertion(sub="desk")),
        ("", assertion(sub=None)),
        ("", {"client_assertion": "nonsense", "client_assertion_type": ASSERTION}),
        ("", {**assertion(), "client_assertion_type": "saml"}),
    ],
)
def test_a_proof_that_is_none(authorization: str, fields: dict[str, str]) -> None:
    with pytest.raises(RequestError) as caught:
        identify(authorization, None, **fields)
    assert (caught.value.error, caught.value.status) == ("invalid_client", 401)


def test_an_assertion_is_good_once() -> None:
    used: ExpiringMap[bool] = ExpiringMap(600)
    identify("", used, **assertion())
    identify("", used, **assertion(jti="2"))
    with pytest.raises(RequestError, match="used before"):
        identify("", used, **assertion())
