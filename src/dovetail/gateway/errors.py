"""Errors of a gateway about its servers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar

from dovetail.protocol.errors import INTERNAL_ERROR, INVALID_PARAMS, HttpStatus, ProtocolError
from dovetail.text.redact import REDACTED, redact_text

MAX_NAMED = 5
"""Servers that one error names; of the others it gives the number."""


_QUERY = re.compile(r"(\b(?:https?|wss?)://[^\s?#]{0,2000}\?)[^\s#]*[^\s#:.,;!]")


def shown_reason(problem: object) -> str:
    """The reason of a failure for clients, `/status` and the log, without the secrets of a launch.

    What URLs have as query is left out, and everything else that looks like a secret.
    """
    return redact_text(_QUERY.sub(rf"\1{REDACTED}", str(problem)))


class ServerUnavailable(ProtocolError):
    """A server behind the gateway cannot be reached now; the request was not sent to it."""

    is_for_users: ClassVar[bool] = False
    """True if the reason is written for users, and has no part of what a server or a library has said."""

    def __init__(self, server: str, reason: str, retry_in: float | None = None) -> None:
        self.server = server
        self.reason = reason if self.is_for_users else shown_reason(reason)
        self.retry_in = retry_in
        super().__init__(INTERNAL_ERROR, f"The server {server!r} is not available: {self.detail}", {"server": server})

    @property
    def detail(self) -> str:
        """The reason, and when the server is tried again, as sentences."""
        later = "" if self.retry_in is None else f" It is tried again in {max(self.retry_in, 0.1):.1f} s."
        return (self.reason if self.reason.endswith((".", "!", "?")) else f"{self.reason}.") + later


class AccountNeeded(ServerUnavailable):
    """A server is used with an account of the caller's own, and the caller has none there, or has to log in again."""

    is_for_users = True

    def __init__(self, server: str, page: str, why: str = "") -> None:
        """`page` is where the user connects the account, `why` what came of an attempt to."""
        text = (
            f"{why} Connect your account at {page} and try again"
            if why
            else (f"it needs your account there. Connect it at {page} and try again")
        )
        super().__init__(server, text)
        self.data = {"server": server, "url": page}


def failed_request(server: str, what: str, problem: object) -> ProtocolError:
    """The error about a request to a server that has come to nothing; `what` says what the server did."""
    return ProtocolError(INTERNAL_ERROR, f"The server {server!r} {what}: {shown_reason(problem)}")


def not_found_elsewhere(uri: str, unavailable: Sequence[ServerUnavailable]) -> ProtocolError:
    """The error about a URI that no server has which could be asked, while others could not."""
    if len(unavailable) == 1:
        (one,) = unavailable
        text = f"the server {one.server!r}, which may have it, could not be asked: {one.detail}"
    else:
        named = " ".join(f"{one.server!r}: {one.detail}" for one in unavailable[:MAX_NAMED])
        more = _more(len(unavailable) - MAX_NAMED)
        text = f"{len(unavailable)} servers, which may have it, could not be asked. {named}{more}"
    servers = [one.server for one in unavailable]
    return ProtocolError(INTERNAL_ERROR, f"Resource not found: {uri}; {text}", {"uri": uri, "servers": servers})


def ambiguous_uri(uri: str, uris: Sequence[str]) -> ProtocolError:
    """The error about a URI that several servers have; `uris` each lead to one of them."""
    named = ", ".join(uris[:MAX_NAMED]) + _more(len(uris) - MAX_NAMED)
    text = f"Several servers have {uri}: name one of them, with {named}"
    return ProtocolError(INVALID_PARAMS, text, {"uri": uri, "uris": list(uris[:MAX_NAMED])})


def _more(number: int) -> str:
    return f" and {number} more" if number > 0 else ""


def http_status_of(problem: BaseException) -> int | None:
    """The HTTP status that a request was answered with, if that is the problem."""
    cause = problem if isinstance(problem, HttpStatus) else problem.__cause__
    return cause.status if isinstance(cause, HttpStatus) else None
