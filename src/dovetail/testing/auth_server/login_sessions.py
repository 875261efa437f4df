"""Users on their way through the pages: each request belongs to the browser that brought it.

RFC 9700, section 4.7: a form that another site makes a browser send has no ticket, and a stolen ticket is of no
use in another browser.
"""

from __future__ import annotations

import msgspec

from dovetail.auth.http import Random
from dovetail.auth.jwk import encode64

from .authorize_request import Asked
from .errors import Problem
from .expiring_map import Shelf

VISIT_SECONDS = 600.0
LOGIN_SECONDS = 8 * 3600.0
MAX_USER = 100


class Visit(msgspec.Struct, frozen=True):
    """A request that a user has not answered yet."""

    asked: Asked
    browser: str


class Visits:
    """All of them, and who is logged in in which browser."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._waiting: Shelf[Visit] = Shelf(VISIT_SECONDS)
        self._users: Shelf[str] = Shelf(LOGIN_SECONDS)

    def new_browser(self) -> str:
        """A name for a browser, to be kept in its cookie."""
        return encode64(self._random(24))

    def begin(self, asked: Asked, browser: str, now: float) -> str:
        """A ticket for a request that a browser has brought."""
        ticket = encode64(self._random(24))
        self._waiting.put(ticket, Visit(asked, browser), now)
        return ticket

    def user(self, browser: str, now: float) -> str | None:
        """Who is logged in there."""
        return self._users.get(browser, now)

    def find(self, ticket: str, browser: str, now: float) -> Visit:
        """The request with a ticket, in its own browser."""
        visit = self._waiting.get(ticket, now)
        if visit is None or not browser or visit.browser != browser:
            raise Problem("invalid_request", "This page is too old, or was opened in another browser")
        return visit

    def log_in(self, ticket: str, visit: Visit, user: str, now: float) -> str:
        """A user is known from now on; the browser gets a new name, for somebody else may know the old one."""
        name = " ".join(user.split())
        if not name or len(name) > MAX_USER or not name.isprintable():
            raise Problem("invalid_request", "A user name is a text of at most 100 letters")
        browser = self.new_browser()
        self._users.take(visit.browser, now)
        self._users.put(browser, name, now)
        self._waiting.put(ticket, Visit(visit.asked, browser), now)
        return browser

    def log_out(self, browser: str, now: float) -> None:
        """Nobody is known there any more."""
        self._users.take(browser, now)

    def end(self, ticket: str, now: float) -> None:
        """The request is answered."""
        self._waiting.take(ticket, now)
