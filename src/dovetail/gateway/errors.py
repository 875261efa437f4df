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
