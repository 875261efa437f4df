"""Login sessions of browsers, and pending authorization requests bound to them.

RFC 9700, section 4.7: a form that another site makes a browser submit has no valid ticket, and a stolen ticket is
useless in another browser.
"""

from __future__ import annotations

import msgspec

from dovetail.auth.http import Random
from dovetail.auth.jwk import encode64

from .authorize_request import UserAuthorization
from .errors import RequestError
from .expiring_map import ExpiringMap

PENDING_SECONDS = 600.0
LOGIN_SECONDS = 8 * 3600.0
MAX_USER = 100


class PendingLogin(msgspec.Struct, frozen=True):
    """An authorization request that the user has not decided yet."""

    authorization: UserAuthorization
    browser: str


class LoginSessions:
    """Pending requests, and the user logged in in each browser."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._pending: ExpiringMap[PendingLogin] = ExpiringMap(PENDING_SECONDS)
        self._users: ExpiringMap[str] = ExpiringMap(LOGIN_SECONDS)

    def new_browser(self) -> str:
        """A new session id for the cookie of a browser."""
        return encode64(self._random(24))

    def begin(self, authorization: UserAuthorization, browser: str, now: float) -> str:
        """Add a pending request; returns its ticket."""
        ticket = encode64(self._random(24))
        self._pending.put(ticket, PendingLogin(authorization, browser), now)
        return ticket

    def user(self, browser: str, now: float) -> str | None:
        """The user logged in in a browser."""
        return self._users.get(browser, now)

    def find(self, ticket: str, browser: str, now: float) -> PendingLogin:
        """The pending request of a ticket, if the browser is the same."""
        pending = self._pending.get(ticket, now)
        if pending is None or not browser or pending.browser != browser:
            raise RequestError("invalid_request", "This page has expired, or was opened in another browser")
        return pending

    def log_in(self, ticket: str, pending: PendingLogin, user: str, now: float) -> str:
        """Log in a user; the browser gets a new session id, against session fixation."""
        name = " ".join(user.split())
        if not name or len(name) > MAX_USER or not name.isprintable():
            raise RequestError("invalid_request", "A user name has 1 to 100 printable characters")
        browser = self.new_browser()
        self._users.pop(pending.browser, now)
        self._users.put(browser, name, now)
        self._pending.put(ticket, PendingLogin(pending.authorization, browser), now)
        return browser

    def log_out(self, browser: str, now: float) -> None:
        """Log out the user of a browser."""
        self._users.pop(browser, now)

    def end(self, ticket: str, now: float) -> None:
        """Remove a pending request."""
        self._pending.pop(ticket, now)
