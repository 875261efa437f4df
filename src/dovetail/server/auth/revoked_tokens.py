"""Revoked tokens: tokens that are refused before they expire, in all processes that share a store.

Revocations are entries of a log in the store, which every process reads before it accepts its first token and then
follows, so that no request needs a round trip. Only digests of tokens are stored.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import struct
import time
from collections.abc import Callable
from hashlib import sha256

from dovetail.auth import jwt
from dovetail.auth.errors import TokenRefused
from dovetail.storage.contract import LogEntries, Store, Subscription
from dovetail.types.bounded_dict import BoundedDict

logger = logging.getLogger("dovetail")

MAX_REVOKED = 100_000
"""Revoked tokens remembered; beyond it the first ones are forgotten."""

LOG = "revoked-tokens"
_ENTRY = struct.Struct(">32sd")
"""The digest of a token, and the time (seconds since 1970) from which it is refused anyway."""

_READ = 1000
_CLOCKS = 300.0
"""Seconds for which a revocation is kept after the token's expiry, because clocks and leeways differ."""


def token_digest(token: str) -> bytes:
    """The digest under which a token is known here."""
    return sha256(token.encode(errors="surrogatepass")).digest()


def expiry_of(token: str) -> float | None:
    """The time of expiry in a signed token, which is not verified; None for tokens of another format."""
    try:
        return jwt.time_claim(jwt.parse_unverified(token).claims, "exp")
    except TokenRefused:
        return None


class RevocationWatch:
    """A callback for the revocation of one token, called once, on the event loop that it was made on."""

    __slots__ = ("_callback", "_digest", "_loop", "_watches")

    def __init__(self, digest: bytes, callback: Callable[[], None], watches: dict[bytes, set[RevocationWatch]]) -> None:
        self._digest = digest
        self._callback = callback
        self._loop = asyncio.get_running_loop()
        self._watches = watches
        watches.setdefault(digest, set()).add(self)

    def cancel(self) -> None:
        """Do not call it any more."""
        same = self._watches.get(self._digest, set())
        same.discard(self)
        if not same:
            self._watches.pop(self._digest, None)

    def notify(self) -> None:
        """Call it soon; safe from any thread."""
        with contextlib.suppress(RuntimeError):  # its loop is closed, and so is what it would have ended
            self._loop.call_soon_threadsafe(self._notify_now)

    def _notify_now(self) -> None:
        if self in self._watches.get(self._digest, ()):
            self.cancel()
            self._callback()


class RevokedTokens:
    """The tokens that one server refuses before they expire."""

    def __init__(self, max_revoked: int = MAX_REVOKED) -> None:
        self._max_revoked = max_revoked
        self._until: BoundedDict[bytes, float] = BoundedDict(max_revoked)
        """By digest: the time after which a token need not be remembered."""
        self._watches: dict[bytes, set[RevocationWatch]] = {}
        self._store: Callable[[], Store | None] | None = None
        self._reading: asyncio.Task[None] | None = None
        self._subscription: Subscription | None = None

    def use_store(self, store: Callable[[], Store | None]) -> None:
        """Share revocations through a store, which is opened for the first token; None if there is none."""
        self._store = store

    async def revoke(self, token: str, expires_at: float | None) -> None:
        """Refuse a token here at once, and everywhere soon; `StoreError` if others could not be told."""
        expiry = expiry_of(token) if expires_at is None else expires_at
        until = math.inf if expiry is None else expiry + _CLOCKS
        digest = token_digest(token)
        self._add(digest, until)
        store = None if self._store is None else self._store()
        if store is not None:
            await store.append(LOG, [_ENTRY.pack(digest, until)], keep=self._max_revoked)

    def take_over(self, other: RevokedTokens) -> None:
        """Refuse here what another part of the same server refuses."""
        for digest, until in list(other._until.items()):
            self._add(digest, until)

    async def check(self, token: str) -> bytes:
        """The digest of a token; `TokenRefused` if it was revoked, `StoreError` if that cannot be known yet."""
        if self._store is not None and self._subscription is None:
            await self._read_first()
        digest = token_digest(token)
        until = self._until.get(digest) if self._until else None
        if until is not None and time.time() < until:
            raise TokenRefused("The token was revoked")
        return digest

    def watch(self, digest: bytes, callback: Callable[[], None]) -> RevocationWatch:
        """Call a function when a token is revoked, once; soon, if it was revoked since it was checked."""
        watch = RevocationWatch(digest, callback, self._watches)
        if digest in self._until:
            watch.notify()
        return watch

    async def close(self) -> None:
        """Stop to follow the store, which belongs to the application."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait([self._reading])
        if self._subscription is not None:
            self._subscription.close()

    async def _read_first(self) -> None:
        """Read what was revoked before this process started, once for all requests that wait for it."""
        if self._reading is None or self._reading.done():
            self._reading = asyncio.get_running_loop().create_task(self._read())
            self._reading.add_done_callback(_retrieve_exception)
        await asyncio.shield(self._reading)

    async def _read(self) -> None:
        store = None if self._store is None else self._store()
        if store is None:
            self._store = None
            return
        position = 0
        while entries := await store.read(LOG, position, _READ):
            self._read_entries(entries)
            position = entries[-1][0]
        self._subscription = await store.follow(LOG, position, self._read_entries)

    def _read_entries(self, entries: LogEntries) -> None:
        for _, entry in entries:
            try:
                digest, until = _ENTRY.unpack(entry)
            except struct.error:
                logger.error("The log of revoked tokens has an entry of %d bytes that is none", len(entry))
                continue
            self._add(digest, until)

    def _add(self, digest: bytes, until: float) -> None:
        now = time.time()
        if until <= now:
            return
        if len(self._until) >= self._max_revoked:
            for old in [one for one, end in list(self._until.items()) if end <= now]:
                self._until.pop(old, None)
        self._until.set_and_refresh(digest, until)
        for watch in list(self._watches.get(digest, ())):
            watch.notify()


def _retrieve_exception(task: asyncio.Task[None]) -> None:
    """Keep the loop from logging a failure when every request that waited was cancelled."""
    if not task.cancelled():
        task.exception()
