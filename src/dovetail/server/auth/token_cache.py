"""Answers that stay good for a moment, each asked for once by all who want it at the time."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from hashlib import sha256
from time import monotonic, time

from dovetail.auth.token_verification import Principal

MOST = 10_000


class RecentAnswers:
    """Who tokens belong to, as somebody said a moment ago; only digests of the tokens are kept.

    Nothing is kept beyond the end of its token, and nothing of a token that was refused.
    """

    def __init__(self, seconds: float, most: int = MOST) -> None:
        self._seconds = seconds
        self._most = most
        self._known: OrderedDict[bytes, tuple[float, Principal]] = OrderedDict()
        """With the time until which each is good, those first that were asked for first."""
        self._asking: dict[bytes, asyncio.Task[Principal]] = {}

    def __len__(self) -> int:
        return len(self._known)

    async def get(self, token: str, ask: Callable[[str], Awaitable[Principal]]) -> Principal:
        """What is known of a token, else what is said of it now."""
        if self._seconds <= 0:
            return await ask(token)
        key, now = sha256(token.encode(errors="surrogatepass")).digest(), monotonic()
        found = self._known.get(key)
        if found is not None and now < found[0]:
            return found[1]
        task = self._asking.get(key)
        if task is None:
            task = self._asking[key] = asyncio.ensure_future(self._ask(key, token, ask))
            task.add_done_callback(lambda done: self._answered(key, done))
        return await asyncio.shield(task)

    async def _ask(self, key: bytes, token: str, ask: Callable[[str], Awaitable[Principal]]) -> Principal:
        who = await ask(token)
        left = self._seconds if who.expires_at is None else min(self._seconds, who.expires_at - time())
        self._known.pop(key, None)
        if left > 0:
            self._known[key] = monotonic() + left, who
        while len(self._known) > self._most:
            self._known.popitem(last=False)
        return who

    def _answered(self, key: bytes, task: asyncio.Task[Principal]) -> None:
        del self._asking[key]
        if not task.cancelled():
            task.exception()  # all who waited may be gone
