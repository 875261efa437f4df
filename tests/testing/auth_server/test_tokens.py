"""Tokens are signed for one server; a refresh token is good once, and its copy ends the login."""

from typing import Any

import pytest

from dovetail.auth.jwk import SigningKey
from dovetail.auth.token_verification import TokenRules
from dovetail.testing.auth_server.errors import RequestError
from dovetail.testing.auth_server.tokens import AccessRight, TokenIssuer
from tests.testing.auth_server.asks import NOW, RESOURCE, Dice

ISSUER = "http://me"
KEY = SigningKey.generate(kid="k")
RIGHT = AccessRight(subject="ada", client_id="desk", resource=RESOURCE, scopes=("read", "write"))


def mint() -> TokenIssuer:
    made = TokenIssuer(Dice(), KEY)
    made.begin("family", RIGHT, NOW)
    return made


def access(made: TokenIssuer, seconds: float = 60, **changes: Any) -> str:
    import msgspec

    return made.access(ISSUER, "family", msgspec.structs.replace(RIGHT, **changes), NOW, seconds)


def test_a_server_believes_a_token_that_is_for_it() -> None:
    who = TokenRules(issuer=ISSUER, audience=(RESOURCE,)).check(access(mint()), [KEY.public], NOW)
    assert (who.subject, who.client_id, who.scopes) == ("ada", "desk", ("read", "write"))
    assert who.expires_at == NOW + 60


def test_a_bound_token_names_its_key() -> None:
    who = TokenRules(issuer=ISSUER, audience=(RESOURCE,)).check(access(mint(), jkt="thumb"), [KEY.public], NOW)
    assert who.thumbprint == "thumb"


def test_each_renewal_gives_the_token_for_the_next() -> None:
    made = mint()
    token = made.refresh_token("family", NOW)
    for _ in range(3):
        family, right = made.renew(token, "desk", NOW)
        assert right == RIGHT
        token = made.refresh_token(family, NOW)


def test_a_copy_of_a_refresh_token_ends_the_login() -> None:
    made = mint()
    first, live = made.refresh_token("family", NOW), access(made)
    made.renew(first, "desk", NOW)
    second = made.refresh_token("family", NOW)
    with pytest.raises(RequestError, match="used before"):
        made.renew(first, "desk", NOW)
    with pytest.raises(RequestError, match="revoked"):
        made.renew(second, "desk", NOW)
    assert made.look_up(live, ISSUER, NOW) is None


def test_another_client_cannot_renew_and_ends_nothing() -> None:
    made = mint()
    token = made.refresh_token("family", NOW)
    with pytest.raises(RequestError, match="another client"):
        made.renew(token, "other", NOW)
    made.renew(token, "desk", NOW)


def test_a_revoked_access_token_leaves_the_login() -> None:
    made = mint()
    token, refresh = access(made), made.refresh_token("family", NOW)
    assert made.look_up(token, ISSUER, NOW) is not None
    with pytest.raises(RequestError):
        made.revoke(token, "other", ISSUER, NOW)
    made.revoke(token, "desk", ISSUER, NOW)
    assert made.look_up(token, ISSUER, NOW) is None
    made.renew(refresh, "desk", NOW)


def test_a_revoked_refresh_token_ends_it() -> None:
    made = mint()
    token, refresh = access(made), made.refresh_token("family", NOW)
    with pytest.raises(RequestError):
        made.revoke(refresh, "other", ISSUER, NOW)
    made.revoke(refresh, "desk", ISSUER, NOW)
    assert made.look_up(token, ISSUER, NOW) is None
    with pytest.raises(RequestError):
        made.renew(refresh, "desk", NOW)
    made.revoke(refresh, "desk", ISSUER, NOW)
    made.revoke("never given", "desk", ISSUER, NOW)


def test_introspection_tells_valid_tokens_from_others() -> None:
    made = mint()
    token = access(made)
    assert made.look_up(token, ISSUER, NOW + 59) is not None
    assert made.look_up(token, ISSUER, NOW + 60) is None
    assert made.look_up(token, "http://other", NOW) is None
    assert made.look_up(token[:-2] + "AA", ISSUER, NOW) is None
    assert TokenIssuer(Dice(), KEY).look_up(token, ISSUER, NOW) is None


def test_expired_is_not_logged_out() -> None:
    made = mint()
    token, refresh = access(made), made.refresh_token("family", NOW)
    made.expire_access()
    assert made.look_up(token, ISSUER, NOW) is None
    made.renew(refresh, "desk", NOW)
    made.revoke_all()
    with pytest.raises(RequestError):
        made.renew(made.refresh_token("family", NOW), "desk", NOW)
