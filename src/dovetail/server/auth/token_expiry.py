"""Token expiry: streams, WebSockets and calls end when the token that opened them expires or is revoked.

2026-07-28 authorization, "Token Requirements": every request carries its authorization. A stream that stays open for
hours would otherwise be one request whose token is never checked again. docs/adr/0018 says how far each may outlive
its token.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from .authenticator import AuthenticatedCaller
    from .revoked_tokens import RevocationWatch

CALL_SECONDS = 300.0
"""Seconds that a call whose stream cannot be resumed may run after its token has expired."""

UNAUTHORIZED = 3000
"""The WebSocket close code for an expired token; IANA lists it under this name."""

TOKEN_EXPIRED = "The token has expired; connect again with a new one"

_MAX_SECONDS = 30 * 86400.0
"""The longest time that anything stays open with one token."""


def _always() -> bool:
    return True


class TokenExpiry:
    """A timer that calls `on_expiry` once, when the caller's token has expired or was revoked.

    If `can_resume` is false then, because the client could not come back to what it would lose, the call comes
    `CALL_SECONDS` later.
    """

    __slots__ = ("_caller", "_can_resume", "_on_expiry", "_timer", "_until", "_watch")

    def __init__(
        self,
        caller: AuthenticatedCaller | None,
        on_expiry: Callable[[], None],
        can_resume: Callable[[], bool] = _always,
    ) -> None:
        self._caller = caller
        self._until = None if caller is None else caller.valid_until
        self._on_expiry = on_expiry
        self._can_resume = can_resume
        self._timer: asyncio.TimerHandle | None = None
        self._watch: RevocationWatch | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.cancel()

    def start(self) -> None:
        """Start the timer, if the token expires at all, and watch for its revocation."""
        caller = self._caller
        if caller is None:
            return
        if caller.revoked_tokens is not None:
            self._watch = caller.revoked_tokens.watch(caller.token_digest, self._expired)
        if self._until is not None:
            left = min(max(0.0, self._until - time.time()), _MAX_SECONDS)
            self._timer = asyncio.get_running_loop().call_later(left, self._expired)

    def cancel(self) -> None:
        """Stop the timer: what the token opened has ended by itself."""
        if self._timer is not None:
            self._timer.cancel()
        if self._watch is not None:
            self._watch.cancel()

    def extend(self, valid_until: float | None) -> None:
        """Use the token of a later message of the same client, if it expires later, or not at all (None)."""
        if self._timer is None or self._until is None:
            return
        if valid_until is None or valid_until > self._until:
            self._until = valid_until
            self.cancel()
            self.start()

    def _expired(self) -> None:
        self.cancel()
        if self._can_resume():
            self._on_expiry()
        else:
            self._timer = asyncio.get_running_loop().call_later(CALL_SECONDS, self._on_expiry)
