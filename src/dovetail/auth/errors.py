"""Authorization errors, of clients that request tokens and of servers that verify them.

DovetailError
└── AuthorizationFailed   no token could be obtained
    ├── Untrusted         data from a peer breaks a security rule; none of it was used
    ├── Denied            the authorization server, or the user there, refused: error, description
    ├── LoginNeeded       the server requires a login, and no user can be asked to log in
    ├── LoginNotOffered   the server has no authorization server: only a token that the user has already helps
    ├── ClientNeeded      the authorization server knows no client of ours, and allows no registration
    └── TokenRefused      a token or DPoP proof that a client sent is not valid
        ├── UnknownKey    it is signed with an unknown key; fetching the keys again may help
        └── TokenUnusable it is valid, and not accepted for a reason that its owner may know
"""

from __future__ import annotations

from dovetail.protocol.errors import DovetailError, HttpStatus

MAX_TEXT = 300
"""The most characters of a peer's text in an error message."""


class AuthorizationFailed(DovetailError):
    """No token could be obtained."""


class Untrusted(AuthorizationFailed):
    """Data from a peer breaks a security rule; none of it was used."""


class Denied(AuthorizationFailed):
    """The authorization server, or the user there, refused."""

    def __init__(self, error: str, description: str = "", *, status: int | None = None) -> None:
        self.error = printable(error)
        """The error code, such as `invalid_grant` (RFC 6749, section 5.2)."""
        self.description = printable(description)
        self.status = status
        reason = f"{self.error}: {self.description}" if self.description else self.error
        super().__init__(f"The authorization server refused: {reason}")


class LoginNeeded(AuthorizationFailed):
    """The server requires a login, and no user can be asked to log in; the message says what to do."""

    def __init__(self, reason: str, advice: str = "") -> None:
        super().__init__(f"{reason}: {advice}" if advice else reason)
        self.reason = reason
        """The problem without the advice, which is for clients in code and on the command line."""


class LoginNotOffered(AuthorizationFailed):
    """The server has no authorization server that could issue a token."""


class ClientNeeded(AuthorizationFailed):
    """The authorization server knows no client of ours, and allows no registration."""


class TokenRefused(AuthorizationFailed):
    """A token or DPoP proof that a client sent is not valid; the text is for the log, not for the client."""


class UnknownKey(TokenRefused):
    """A token is signed with an unknown key."""


class TokenUnusable(TokenRefused):
    """A valid token is not accepted; the text is for the client too, who gets the same token at each login."""


def with_credentials_advice(problem: BaseException, advice: str) -> str:
    """The text of an error, with this advice where a server wants credentials.

    The advice in the text itself names parameters and options of clients, which a gateway does not have.
    """
    if isinstance(problem, LoginNeeded) or (isinstance(problem, HttpStatus) and problem.status == 401):
        return f"{problem.reason} ({advice})"
    return str(problem)


def printable(text: str) -> str:
    """A text from a peer made safe to print: one line, no control characters, shortened."""
    line = " ".join(
        "".join(character if character.isprintable() else " " for character in text[: 2 * MAX_TEXT]).split()
    )
    return line if len(line) <= MAX_TEXT else line[:MAX_TEXT] + "..."
