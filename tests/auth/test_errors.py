"""What is told of errors of a peer's."""

from dovetail.auth.errors import MAX_TEXT, AuthorizationFailed, Denied, printable
from dovetail.protocol.errors import DovetailError


def test_a_refusal_says_what_the_server_said() -> None:
    refused = Denied("access_denied", "Not today", status=400)
    assert str(refused) == "The authorization server refused: access_denied: Not today"
    assert isinstance(refused, AuthorizationFailed) and isinstance(refused, DovetailError)
    assert (refused.error, refused.description, refused.status) == ("access_denied", "Not today", 400)


def test_a_refusal_without_words() -> None:
    assert str(Denied("access_denied")) == "The authorization server refused: access_denied"


def test_a_text_of_a_peer_cannot_drive_a_terminal() -> None:
    assert printable("a\x1b[31m\r\nb\u202e\x9bc") == "a [31m b c"


def test_a_long_text_is_cut() -> None:
    assert len(printable("x" * 100_000)) == MAX_TEXT + 3
