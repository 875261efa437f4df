"""The authorization server without HTTP: who is known, what was given, and the answer to each kind of request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from dovetail.auth import dpop, url_guard
from dovetail.auth.errors import AuthorizationFailed, TokenRefused, printable
from dovetail.auth.http import Document, Random
from dovetail.auth.jwk import SigningKey

from . import metadata
from .authorize_request import Asked, Offer
from .client_authentication import ASSERTION_SECONDS, Shown, check_shown
from .clients import PUBLIC, KnownClient, Registry, describe
from .codes import Allowed
from .errors import Problem, needed
from .expiring_map import Shelf
from .login_sessions import Visits
from .token_endpoint import Grants, Request


class Desk:
    """All that the server knows; the time is that of `clock`."""

    def __init__(self, offer: Offer, *, random: Random, clock: Callable[[], float], seconds: int) -> None:
        self.issuer = ""
        self.offer = offer
        self.clock = clock
        self.seconds = seconds
        """How long access tokens live."""
        self.registry = Registry(random)
        self.visits = Visits(random)
        self.key = SigningKey.generate(kid=random(8).hex())
        self.grants = Grants(random, self.key, offer)
        self.given: Counter[str] = Counter()
        """How often tokens were given, by the kind of grant."""
        self.tell: Callable[[str], None] = lambda _: None
        """Hears of everything that happens, in a sentence."""
        self._used: Shelf[bool] = Shelf(ASSERTION_SECONDS)
        self._replays = dpop.UsedProofs()

    @property
    def path(self) -> str:
        """The path that all of the server's addresses begin with."""
        return urlsplit(self.issuer).path.rstrip("/")

    def describe(self) -> dict[str, Any]:
        """What the server says of itself."""
        return metadata.describe(self.issuer, self.offer)

    def register(self, body: bytes) -> dict[str, Any]:
        """A new client (RFC 7591)."""
        try:
            document = Document.read(body, "The registration")
        except AuthorizationFailed as problem:
            raise Problem("invalid_client_metadata", str(problem)) from None
        client = self.registry.register(document)
        self.tell(f"{printable(client.name)} has registered")
        return describe(client, self.clock())

    def identify(self, shown: Shown, client: KnownClient | None) -> KnownClient:
        """The client of a request, if it has proved who it is."""
        audience = (self.issuer, f"{self.issuer.rstrip('/')}/token")
        return check_shown(shown, client, audience=audience, used=self._used, now=self.clock())

    def allow(self, asked: Asked, user: str, scopes: tuple[str, ...]) -> str:
        """A user agrees: where the browser goes with the code."""
        code = self.grants.codes.new(Allowed(asked, user, scopes), self.clock())
        self.tell(f"{user} lets {printable(asked.client.name)} use {printable(asked.resource)}{_shown(scopes)}")
        return asked.back(self.issuer, code=code)

    def deny(self, asked: Asked) -> str:
        """A user does not agree."""
        self.tell(f"{printable(asked.client.name)} was denied {printable(asked.resource)}")
        return asked.back(self.issuer, error="access_denied", error_description="The user said no")

    def give(self, fields: dict[str, str], client: KnownClient, proof: str) -> dict[str, Any]:
        """Tokens (RFC 6749, section 5.1)."""
        now = self.clock()
        kind = needed(fields, "grant_type")
        request = Request(
            fields=fields,
            client=client,
            issuer=self.issuer,
            now=now,
            seconds=self.seconds,
            jkt=self._proved(proof, now) if proof else None,
        )
        given = self.grants.give(request)
        self.given[kind] += 1
        right = given.right
        self.tell(f"{kind}: a token for {right.subject} at {printable(right.resource)}{_shown(right.scopes)}")
        return given.document

    def revoke(self, fields: dict[str, str], client: KnownClient) -> None:
        """End a token (RFC 7009)."""
        self.grants.mint.revoke(needed(fields, "token"), client.id, self.issuer, self.clock())
        self.tell(f"{printable(client.name)} has revoked a token")

    def introspect(self, fields: dict[str, str], client: KnownClient) -> dict[str, Any]:
        """What a token is good for (RFC 7662); not for everybody to know."""
        if client.method == PUBLIC:
            raise Problem("invalid_client", "Only a client with a secret or a key may ask about tokens", 401)
        claims = self.grants.mint.look_up(needed(fields, "token"), self.issuer, self.clock())
        if claims is None:
            return {"active": False}
        return {
            "active": True,
            "username": claims["sub"],
            "token_type": "DPoP" if "cnf" in claims else "Bearer",
            **claims,
        }

    def answers_to(self, host: str) -> bool:
        """Whether a request names this server as its host: a page could give its own name this machine's address."""
        if host.lower() == urlsplit(self.issuer).netloc.lower():
            return True
        try:
            return url_guard.is_loopback(urlsplit(f"//{host}").hostname or "")
        except ValueError:
            return False

    def _proved(self, proof: str, now: float) -> str:
        try:
            found = dpop.verify(proof, "POST", f"{self.issuer.rstrip('/')}/token", now=now)
            self._replays.admit(found, now)
        except TokenRefused as problem:
            raise Problem("invalid_dpop_proof", str(problem)) from None
        return found.thumbprint


def _shown(scopes: tuple[str, ...]) -> str:
    return f" ({' '.join(scopes)})" if scopes else ""
