"""What can go wrong while a client gets a token, or a server checks one.

DovetailError
└── AuthorizationFailed   there is no token
    ├── Untrusted         what came breaks a rule that keeps an attacker out; nothing of it was used
    ├── Denied            an authorization server or the user said no: error, description
    ├── LoginNeeded       a server wants a login, and nobody is there who could log in
    ├── ClientNeeded      there is no client identifier for an authorization server, and no way to get one
    └── TokenRefused      a token or proof that was shown to us is not valid
        └── UnknownKey    it names a key that is not among those known; newer ones may hold it
"""

from __future__ import annotations

from dovetail.protocol.errors import DovetailError

MAX_WORDS = 300
"""How much of a text of the peer's is told on."""


class AuthorizationFailed(DovetailError):
    """No token could be had."""


class Untrusted(AuthorizationFailed):
    """What came from a peer breaks a rule that keeps an attacker out; nothing of it was used."""


class Denied(AuthorizationFailed):
    """An authorization server, or the user there, said no."""

    def __init__(self, error: str, description: str = "", *, status: int | None = None) -> None:
        self.error = plain(error)
        """The code of the error, such as `invalid_grant` (RFC 6749, section 5.2)."""
        self.description = plain(description)
        self.status = status
        told = f"{self.error}: {self.description}" if self.description else self.error
        super().__init__(f"The authorization server refused: {told}")


class LoginNeeded(AuthorizationFailed):
    """A server wants a login, and nobody is there who could log in; the message says what to do."""


class ClientNeeded(AuthorizationFailed):
    """An authorization server knows no client of ours, and lets none register."""


class TokenRefused(AuthorizationFailed):
    """A token or a proof that was shown to us is not valid; the text is for the log, not for the peer."""


class UnknownKey(TokenRefused):
    """A token names a key that is not among those known."""


def plain(text: str) -> str:
    """A text of a peer's that is safe to print: one line, no control characters, not long."""
    shown = " ".join("".join(letter if letter.isprintable() else " " for letter in text[: 2 * MAX_WORDS]).split())
    return shown if len(shown) <= MAX_WORDS else shown[:MAX_WORDS] + "..."
