"""Browser sessions: the user of the gateway that a browser has proved to be, in an encrypted cookie.

The cookie is the session: any gateway with the same keys reads it. The store has only the ids of sessions that were
ended, each until its cookie would have expired, so that a copy of the cookie is of no use after a logout.
"""

from __future__ import annotations

import os
import re
from urllib.parse import urlsplit

import msgspec

from .account_store import AccountStore

SESSION_SECONDS = 3600
"""Seconds for which a browser need not prove again whose it is."""


class BrowserSession(msgspec.Struct, array_like=True, frozen=True):
    """A browser, and its user once that is known."""

    id: str
    expires: float
    principal: str | None = None

    @property
    def form_token(self) -> str:
        """The value that forms of this session send along, which other sites do not know."""
        return self.id[:32]


class BrowserSessions:
    """Reads and writes the cookie."""

    def __init__(self, store: AccountStore, base: str) -> None:
        """`base` is the public URL of the gateway."""
        self._store = store
        # A cookie of another gateway, such as that of a trial installation, is of no use here, even with the same keys.
        self._purpose = f"browser session {base}".encode()
        parts = urlsplit(base)
        self._is_secure = parts.scheme == "https"
        # Cookies do not tell ports apart, so the name does: two gateways on one machine have sessions of their own.
        self._name = "__Host-dovetail-gateway" if self._is_secure else f"dovetail-gateway-{parts.port or 80}"

    async def read(self, cookie_header: bytes, now: float) -> BrowserSession:
        """The session of a request; a new one, of nobody, if there is none that is valid.

        Raises `StoreError` if it cannot be known whether it was ended.
        """
        # Not with `http.cookies`, which drops all cookies if one of another application is not to its taste.
        for part in re.split("[;,]", cookie_header.decode("latin-1")):
            name, _, value = part.strip().partition("=")
            content = self._store.open(value, self._purpose) if name == self._name else None
            try:
                session = None if content is None else msgspec.msgpack.decode(content, type=BrowserSession)
            except msgspec.DecodeError:
                continue  # of another version of the gateway
            if session is None or now >= session.expires:
                continue
            # One of nobody gives no rights, and is not worth a question to the store.
            if session.principal is None or not await self._store.has_ended(session.id):
                return session
        return self.new(now)

    async def end(self, session: BrowserSession, now: float) -> None:
        """End a session at all gateways, before it expires; `StoreError` if that fails."""
        if session.principal is not None and now < session.expires:
            await self._store.end_session(session.id, session.expires - now)

    def new(self, now: float, principal: str | None = None) -> BrowserSession:
        """A new session; each login begins one, so that no id from before is of any use."""
        return BrowserSession(os.urandom(32).hex(), now + SESSION_SECONDS, principal)

    def write(self, session: BrowserSession) -> str:
        """The value of the Set-Cookie header. Lax, because the redirect of a login comes from another site."""
        value = self._store.seal(msgspec.msgpack.encode(session), self._purpose)
        secure = "; Secure" if self._is_secure else ""
        return f"{self._name}={value}; Path=/; Max-Age={SESSION_SECONDS}; HttpOnly; SameSite=Lax{secure}"
