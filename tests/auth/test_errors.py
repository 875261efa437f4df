"""What is told of errors of a peer's."""

import pytest

from dovetail.auth.errors import MAX_TEXT, AuthorizationFailed, Denied, LoginNeeded, printable, with_credentials_advice
from dovetail.protocol.errors import ConnectionLost, DovetailError, HttpStatus


def test_a_refusal_says_what_the_server_said() -> None:
    refused = Denied("access_denied", "Not today", status=400)
    assert str(refused) == "The authorization server refused: access_denied: Not today"
    assert isinstance(refused, AuthorizationFailed) and isinstance(refused, DovetailError)
    assert (refused.error, refused.description, refused.status) == ("access_denied", "Not today", 400)


def test_a_refusal_without_words() -> None:
    assert str(Denied("access_denied")) == "The authorization server refused: access_denied"


@pytest.mark.parametrize(
    "problem", [HttpStatus("a refused", 401, "http://a", advice="use auth="), LoginNeeded("a refused", "use auth=")]
)
def test_advice_about_credentials_can_be_replaced(problem: DovetailError) -> None:
    assert "use auth=" in str(problem)
    assert with_credentials_advice(problem, "set `headers`") == "a refused (set `headers`)"


@pytest.mark.parametrize("problem", [HttpStatus("busy", 503, "http://a", advice="wait"), ConnectionLost("gone")])
def test_other_advice_stays(problem: DovetailError) -> None:
    assert with_credentials_advice(problem, "set `headers`") == str(problem)


def test_a_text_of_a_peer_cannot_drive_a_terminal() -> None:
    assert printable("a\x1b[31m\r\nb\u202e\x9bc") == "a [31m b c"


def test_a_long_text_is_cut() -> None:
    assert len(printable("x" * 100_000)) == MAX_TEXT + 3
