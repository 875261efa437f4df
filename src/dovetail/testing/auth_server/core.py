"""The authorization server without HTTP: clients, logins, grants, and the response to each kind of request."""

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
from .authorize_request import Offer, UserAuthorization
from .client_authentication import ASSERTION_SECONDS, PresentedCredentials, verify_credentials
from .clients import PUBLIC, ClientRegistry, KnownClient, registration_response
from .codes import ApprovedAuthorization
from .errors import RequestError, required_field
from .expiring_map import ExpiringMap
from .login_sessions import LoginSessions
from .token_endpoint import GrantHandlers, TokenRequest


class AuthServerCore:
    """State and operations of the authorization server; time comes from `clock`."""

    def __init__(self, offer: Offer, *, random: Random, clock: Callable[[], float], seconds: int) -> None:
        self.issuer = ""
        self.offer = offer
        self.clock = clock
        self.seconds = seconds
        """Lifetime of access tokens."""
        self.registry = ClientRegistry(random)
        self.sessions = LoginSessions(random)
        self.key = SigningKey.generate(kid=random(8).hex())
        self.grants = GrantHandlers(random, self.key, offer)
        self.issued: Counter[str] = Counter()
        """Number of token responses by grant type."""
        self.on_event: Callable[[str], None] = lambda _: None
        """Called with a sentence for every event."""
        self._used: ExpiringMap[bool] = ExpiringMap(ASSERTION_SECONDS)
        self._replays = dpop.UsedProofs()

    @property
    def path(self) -> str:
        """The path prefix of all endpoints."""
        return urlsplit(self.issuer).path.rstrip("/")

    def describe(self) -> dict[str, Any]:
        """The metadata document."""
        return metadata.metadata_document(self.issuer, self.offer)

    def register(self, body: bytes) -> dict[str, Any]:
        """Register a client (RFC 7591)."""
        try:
            document = Document.read(body, "The registration")
        except AuthorizationFailed as problem:
            raise RequestError("invalid_client_metadata", str(problem)) from None
        client = self.registry.register(document)
        self.on_event(f"{printable(client.name)} has registered")
        return registration_response(client, self.clock())

    def identify(self, presented: PresentedCredentials, client: KnownClient | None) -> KnownClient:
        """Authenticate the client of a request."""
        audience = (self.issuer, f"{self.issuer.rstrip('/')}/token")
        return verify_credentials(presented, client, audience=audience, used=self._used, now=self.clock())

    def approve(self, authorization: UserAuthorization, user: str, scopes: tuple[str, ...]) -> str:
        """The user approves: the redirect URL with a code."""
        code = self.grants.codes.new(ApprovedAuthorization(authorization, user, scopes), self.clock())
        client, resource = printable(authorization.client.name), printable(authorization.resource)
        self.on_event(f"{user} authorized {client} for {resource}{_scopes_text(scopes)}")
        return authorization.back(self.issuer, code=code)

    def deny(self, authorization: UserAuthorization) -> str:
        """The user denies: the redirect URL with an error."""
        self.on_event(f"{printable(authorization.client.name)} was denied {printable(authorization.resource)}")
        return authorization.back(self.issuer, error="access_denied", error_description="The user denied access")

    def issue_tokens(self, fields: dict[str, str], client: KnownClient, proof: str) -> dict[str, Any]:
        """The token response (RFC 6749, section 5.1)."""
        now = self.clock()
        kind = required_field(fields, "grant_type")
        request = TokenRequest(
            fields=fields,
            client=client,
            issuer=self.issuer,
            now=now,
            seconds=self.seconds,
            jkt=self._proved(proof, now) if proof else None,
        )
        issued = self.grants.issue(request)
        self.issued[kind] += 1
        right = issued.right
        self.on_event(f"{kind}: a token for {right.subject} at {printable(right.resource)}{_scopes_text(right.scopes)}")
        return issued.document

    def revoke(self, fields: dict[str, str], client: KnownClient) -> None:
        """Revoke a token (RFC 7009)."""
        self.grants.issuer.revoke(required_field(fields, "token"), client.id, self.issuer, self.clock())
        self.on_event(f"{printable(client.name)} has revoked a token")

    def introspect(self, fields: dict[str, str], client: KnownClient) -> dict[str, Any]:
        """Introspect a token (RFC 7662); needs an authenticated client."""
        if client.method == PUBLIC:
            raise RequestError("invalid_client", "Only a client with a secret or a key may introspect tokens", 401)
        claims = self.grants.issuer.look_up(required_field(fields, "token"), self.issuer, self.clock())
        if claims is None:
            return {"active": False}
        return {
            "active": True,
            "username": claims["sub"],
            "token_type": "DPoP" if "cnf" in claims else "Bearer",
            **claims,
        }

    def accepts_host(self, host: str) -> bool:
        """Check the Host header, against DNS rebinding."""
        if host.lower() == urlsplit(self.issuer).netloc.lower():
            return True
        try:
            return url_guard.is_loopback(urlsplit(f"//{host}").hostname or "")
        except ValueError:
            return False

    def _proved(self, proof: str, now: float) -> str:
        try:
            checked = dpop.verify(proof, "POST", f"{self.issuer.rstrip('/')}/token", now=now)
            self._replays.admit(checked, now)
        except TokenRefused as problem:
            raise RequestError("invalid_dpop_proof", str(problem)) from None
        return checked.thumbprint


def _scopes_text(scopes: tuple[str, ...]) -> str:
    return f" ({' '.join(scopes)})" if scopes else ""
