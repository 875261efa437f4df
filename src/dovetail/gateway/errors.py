"""Errors of a gateway about its servers."""

from __future__ import annotations

from dovetail.protocol.errors import INTERNAL_ERROR, ProtocolError


class ServerUnavailable(ProtocolError):
    """A server behind the gateway cannot be reached now; the request was not sent to it."""

    def __init__(self, server: str, reason: str, retry_in: float | None = None) -> None:
        later = "" if retry_in is None else f" It is tried again in {max(retry_in, 0.1):.1f} s."
        text = reason if reason.endswith((".", "!", "?")) else f"{reason}."
        super().__init__(INTERNAL_ERROR, f"The server {server!r} is not available: {text}{later}", {"server": server})
        self.reason = reason


class AccountNeeded(ServerUnavailable):
    """A server is used with an account of the caller's own, and the caller has none there, or has to log in again."""

    def __init__(self, server: str, page: str, why: str = "") -> None:
        """`page` is where the user connects the account, `why` what came of an attempt to."""
        text = (
            f"{why} Connect your account at {page} and try again"
            if why
            else (f"it needs your account there. Connect it at {page} and try again")
        )
        super().__init__(server, text)
        self.server = server
        self.data = {"server": server, "url": page}
