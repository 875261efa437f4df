"""Token cache: recent results of token verification, with concurrent requests for one token sharing one lookup."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from hashlib import sha256
from time import monotonic, time

from dovetail.auth.errors import TokenRefused
from dovetail.auth.token_verification import Principal
from dovetail.types.bounded_dict import BoundedDict

MAX_TOKENS = 10_000
REFUSAL_SECONDS = 2.0

Lookup = Callable[[str], Awaitable[Principal]]


class TokenCache:
    """Principals by token, each for some seconds; only digests of the tokens are kept.

    No entry outlives its token. Refusals are cached for a moment, apart from principals: a flood of invented tokens
    pushes out no valid one.
    """

    def __init__(self, seconds: float, max_tokens: int = MAX_TOKENS) -> None:
        self._seconds = seconds
        self._cached: BoundedDict[bytes, tuple[float, Principal]] = BoundedDict(max_tokens)
        """With the time at which each entry expires."""
        self._refused: BoundedDict[bytes, tuple[float, str]] = BoundedDict(max_tokens)
        self._lookups: dict[bytes, asyncio.Task[Principal]] = {}

    def __len__(self) -> int:
        return len(self._cached)

    async def get(self, token: str, look_up: Lookup) -> Principal:
        """The principal of a token, from the cache or from `look_up`."""
        if self._seconds <= 0:
            return await look_up(token)
        key, now = sha256(token.encode(errors="surrogatepass")).digest(), monotonic()
        cached = self._cached.get(key)
        if cached is not None and now < cached[0]:
            return cached[1]
        refused = self._refused.get(key)
        if refused is not None and now < refused[0]:
            raise TokenRefused(refused[1])
        task = self._lookups.get(key)
        if task is None:
            task = self._lookups[key] = asyncio.ensure_future(self._look_up(key, token, look_up))
            task.add_done_callback(lambda done: self._looked_up(key, done))
        # Shielded: a request that is cancelled must not fail the others that wait for the same token.
        return await asyncio.shield(task)

    async def _look_up(self, key: bytes, token: str, look_up: Lookup) -> Principal:
        try:
            principal = await look_up(token)
        except TokenRefused as problem:
            self._refused.set_and_refresh(key, (monotonic() + min(self._seconds, REFUSAL_SECONDS), str(problem)))
            raise
        left = self._seconds if principal.expires_at is None else min(self._seconds, principal.expires_at - time())
        if left > 0:
            self._cached.set_and_refresh(key, (monotonic() + left, principal))
        else:
            self._cached.pop(key, None)
        return principal

    def _looked_up(self, key: bytes, task: asyncio.Task[Principal]) -> None:
        del self._lookups[key]
        if not task.cancelled():
            task.exception()  # retrieved, because every request that waited may have been cancelled
