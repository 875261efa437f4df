"""Step-up authorization: requesting more scopes after `insufficient_scope`, a limited number of times.

2026-07-28 authorization, "Step-Up Authorization Flow": scopes requested before are requested again, and after
`MAX_TRIES` refusals the request fails.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from . import scopes
from .challenge import Challenge
from .errors import AuthorizationFailed, printable

MAX_TRIES = 2


class StepUp(msgspec.Struct, frozen=True):
    """State of the step-up at one server; it starts again after a request that succeeded."""

    tries: int = 0
    wanted: tuple[str, ...] = ()
    """The scopes to request now."""

    def next_attempt(self, challenge: Challenge, requested: Iterable[str], granted: Iterable[str] | None) -> StepUp:
        """The next state after a refusal, given all scopes requested so far and those of the token, if known.

        Raises `AuthorizationFailed` after `MAX_TRIES`, or if another token would have the same scopes.
        """
        before = scopes.union(requested)
        wanted = scopes.union(before, challenge.scopes)
        why = printable(challenge.error_description or "") or "its permissions are not enough"
        if self.tries >= MAX_TRIES:
            raise AuthorizationFailed(
                f"The server refused the token after {MAX_TRIES} requests for more permissions ({why})"
            )
        if set(challenge.scopes) <= set(before if granted is None else granted) or (
            self.tries and wanted == self.wanted
        ):
            raise AuthorizationFailed(f"The server refuses a token that has all the permissions it names ({why})")
        return StepUp(self.tries + 1, wanted)
