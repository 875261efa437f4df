"""More scopes when a server wants more, a few times and no more.

2026-07-28 authorization, "Step-Up Authorization Flow": all scopes asked for before stay, and a server that is never
content is given up.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from . import scopes
from .challenge import Challenge
from .errors import AuthorizationFailed, plain

MAX_TRIES = 2


class StepUp(msgspec.Struct, frozen=True):
    """How often more was asked for; one for each server, begun again when a request was let through."""

    tries: int = 0
    wanted: tuple[str, ...] = ()
    """The scopes to ask for now."""

    def again(self, challenge: Challenge, requested: Iterable[str], granted: Iterable[str] | None) -> StepUp:
        """The next step after a refusal, with all that was requested so far and what the token allows, if known.

        Raises when it was tried often enough, or when asking again would change nothing.
        """
        before = scopes.union(requested)
        wanted = scopes.union(before, challenge.scopes)
        why = plain(challenge.error_description or "") or "its permissions are not enough"
        if self.tries >= MAX_TRIES:
            raise AuthorizationFailed(f"The server refuses the token again and again ({why})")
        if set(challenge.scopes) <= set(before if granted is None else granted) or (
            self.tries and wanted == self.wanted
        ):
            raise AuthorizationFailed(f"The server refuses a token that has all the permissions it names ({why})")
        return StepUp(self.tries + 1, wanted)
