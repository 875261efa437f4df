"""What a token opened ends with the token, so that its client comes back with a newer one.

2026-07-28 authorization, "Token Requirements": every request brings its authorization; a stream that stays open for
hours would otherwise be one request that nobody asks about again. docs/adr/0018 says how far each outlives its token.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from .authenticator import Visitor

CALL_SECONDS = 300.0
"""How much longer than its token a call may answer on a stream that nobody could come back to."""

UNAUTHORIZED = 3000
"""The code that a WebSocket is closed with when its token has ended; IANA lists it under this name."""

TOKEN_ENDED = "The token has ended; come back with a newer one"

_LONGEST = 30 * 86400.0
"""Nothing stays open for longer than this with one token."""


def _always() -> bool:
    return True


class Lifetime:
    """Says once, while it goes on, that the token of a visitor has ended.

    What `can_return` says no to then, because its client would not know where to come back to, has a while longer.
    """

    __slots__ = ("_alarm", "_can_return", "_end", "_until")

    def __init__(
        self, visitor: Visitor | None, end: Callable[[], None], can_return: Callable[[], bool] = _always
    ) -> None:
        self._until = None if visitor is None else visitor.until
        self._end = end
        self._can_return = can_return
        self._alarm: asyncio.TimerHandle | None = None

    def __enter__(self) -> Self:
        self.begin()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def begin(self) -> None:
        """Watch the time."""
        if self._until is not None:
            left = min(max(0.0, self._until - time.time()), _LONGEST)
            self._alarm = asyncio.get_running_loop().call_later(left, self._ring)

    def close(self) -> None:
        """What the token opened has ended by itself."""
        if self._alarm is not None:
            self._alarm.cancel()

    def extend(self, visitor: Visitor | None) -> None:
        """A later message of the same client brought a token of its own, which may last longer."""
        if self._alarm is None or self._until is None or visitor is None:
            return
        if visitor.until is None or visitor.until > self._until:
            self._until = visitor.until
            self._alarm.cancel()
            self.begin()

    def _ring(self) -> None:
        if self._can_return():
            self._end()
        else:
            self._alarm = asyncio.get_running_loop().call_later(CALL_SECONDS, self._end)
