"""A code is good once, for a minute, and for who began the login."""

import pytest

from dovetail.testing.auth_server.clients import KnownClient
from dovetail.testing.auth_server.codes import CODE_SECONDS, ApprovedAuthorization, CodeReused, Codes
from dovetail.testing.auth_server.errors import RequestError
from tests.testing.auth_server.asks import BACK, CLIENT, NOW, VERIFIER, Dice, authorization

ALLOWED = ApprovedAuthorization(authorization(), "ada", ("read",))


def redeem(codes: Codes, client: KnownClient = CLIENT, now: float = NOW, **fields: str | None) -> ApprovedAuthorization:
    given = {"redirect_uri": BACK, "code_verifier": VERIFIER, **fields}
    return codes.redeem({name: value for name, value in given.items() if value is not None}, client, "family", now)


def test_a_code_stands_for_what_was_allowed() -> None:
    codes = Codes(Dice())
    assert redeem(codes, code=codes.new(ALLOWED, NOW), now=NOW + CODE_SECONDS - 1) == ALLOWED


def test_the_second_time_it_is_known_what_to_revoke() -> None:
    codes = Codes(Dice())
    code = codes.new(ALLOWED, NOW)
    redeem(codes, code=code)
    with pytest.raises(CodeReused) as caught:
        redeem(codes, code=code)
    assert caught.value.family == "family"


@pytest.mark.parametrize(
    "changes",
    [
        {"code": None},
        {"code": "made up"},
        {"code_verifier": None},
        {"code_verifier": "w" * 43},
        {"code_verifier": "ä" * 43},
        {"redirect_uri": None},
        {"redirect_uri": BACK + "/"},
    ],
)
def test_what_does_not_fit_is_refused_and_uses_nothing_up(changes: dict[str, str | None]) -> None:
    codes = Codes(Dice())
    code = codes.new(ALLOWED, NOW)
    with pytest.raises(RequestError):
        redeem(codes, **{"code": code, **changes})
    assert redeem(codes, code=code) == ALLOWED


def test_another_client_and_a_late_one_get_nothing() -> None:
    codes = Codes(Dice())
    code = codes.new(ALLOWED, NOW)
    with pytest.raises(RequestError, match="another client"):
        redeem(codes, KnownClient(id="other", name="Other"), code=code)
    with pytest.raises(RequestError, match="expired"):
        redeem(codes, code=code, now=NOW + CODE_SECONDS)


def test_a_redirect_uri_that_the_request_left_out_is_left_out_again() -> None:
    codes = Codes(Dice())
    code = codes.new(ApprovedAuthorization(authorization(redirect_uri=None), "ada", ()), NOW)
    with pytest.raises(RequestError):
        redeem(codes, code=code)
    assert redeem(codes, code=code, redirect_uri=None).user == "ada"
