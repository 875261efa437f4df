"""How to become known to an authorization server.

2026-07-28 client registration: credentials that were given, else the URL of a document about the client, else dynamic
registration (RFC 7591).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

import msgspec

from dovetail.protocol.errors import LocalError

from . import url_guard
from .client_authentication import METHODS, Client
from .errors import AuthorizationFailed, ClientNeeded, Denied, Untrusted, plain
from .http import Document, Flow, Response, post_json
from .metadata import AuthorizationServer


class About(msgspec.Struct, frozen=True, kw_only=True):
    """What an authorization server and its users are told of the client."""

    name: str
    redirect_uris: tuple[str, ...]
    uri: str | None = None
    logo_uri: str | None = None
    software_id: str | None = None
    software_version: str | None = None

    def __post_init__(self) -> None:
        for uri in self.redirect_uris:
            check_redirect(uri)

    @property
    def application_type(self) -> str:
        """Whether it runs on the user's machine ("Application Type and Redirect URI Constraints")."""
        hosts = [urlsplit(uri).hostname or "" for uri in self.redirect_uris]
        return "native" if all(map(url_guard.is_loopback, hosts)) else "web"

    def document(self, client_id: str) -> dict[str, Any]:
        """The document to serve at the URL that is the client's identifier."""
        check_document_url(client_id)
        return {"client_id": client_id, **self.fields("none")}

    def fields(self, method: str, scope: Iterable[str] = ()) -> dict[str, Any]:
        """The metadata of the client (RFC 7591, section 2)."""
        given = {
            "client_name": self.name,
            "client_uri": self.uri,
            "logo_uri": self.logo_uri,
            "software_id": self.software_id,
            "software_version": self.software_version,
            "scope": " ".join(scope),
        }
        return {
            **{name: value for name, value in given.items() if value},
            "redirect_uris": list(self.redirect_uris),
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": method,
            "application_type": self.application_type,
        }


def obtain(
    server: AuthorizationServer,
    about: About,
    *,
    now: float,
    given: Client | None = None,
    document: str | None = None,
    known: Client | None = None,
    scope: Iterable[str] = (),
) -> Flow[Client]:
    """A client that the authorization server knows, bound to it.

    `given` was registered by hand, `document` is the URL of a document about us, and `known` is what an earlier
    registration gave. Given credentials of another authorization server are an error, never passed over in silence.
    """
    if given is not None:
        return given.at(server.issuer)
    if document is not None and server.client_id_metadata_document_supported:
        check_document_url(document)
        return Client(id=document, portable=True, auth_method="none", redirect_uris=about.redirect_uris)
    if known is not None and known.issuer == server.issuer and not known.expired(now) and _serves(known, about):
        return known
    if server.registration_endpoint is None:
        raise ClientNeeded(
            f"{plain(server.issuer)} lets no clients register: register one there, and give its identifier (client_id)"
        )
    return (yield from register(server, about, scope))


def register(server: AuthorizationServer, about: About, scope: Iterable[str] = ()) -> Flow[Client]:
    """Register a new client."""
    endpoint = server.registration_endpoint
    assert endpoint is not None
    wanted = about.fields(_method(server), scope)
    response = yield post_json(endpoint, wanted)
    return _registered(server, response, wanted["token_endpoint_auth_method"], about)


def check_redirect(uri: str) -> None:
    """Refuse what a code must not be sent to (2026-07-28 security considerations, "Communication Security")."""
    try:
        url_guard.check_url(uri, "A redirect URI")
    except Untrusted as problem:
        raise LocalError(str(problem)) from None


def check_document_url(url: str) -> None:
    """Refuse what cannot be the identifier of a client with a document (https, with a path)."""
    try:
        parts = url_guard.check_url(url, "The URL of the client's document")
    except Untrusted as problem:
        raise LocalError(str(problem)) from None
    if parts.scheme != "https" or parts.path in ("", "/") or {".", ".."} & set(parts.path.split("/")):
        raise LocalError(f"The URL of the client's document must be https, with a path: {url}")


def _serves(known: Client, about: About) -> bool:
    """Whether a login may come back to where it is to; of a client that was registered by hand we know nothing else."""
    return not known.redirect_uris or set(about.redirect_uris) <= set(known.redirect_uris)


def _method(server: AuthorizationServer) -> str:
    accepted = server.token_endpoint_auth_methods_supported
    if accepted is None or "none" in accepted:
        return "none"
    return next((each for each in ("client_secret_basic", "client_secret_post") if each in accepted), "none")


def _registered(server: AuthorizationServer, response: Response, wanted: str, about: About) -> Client:
    what = f"The registration at {plain(server.issuer)}"
    if response.status not in (200, 201):
        raise _refusal(response, what)
    document = Document.read(response.body, what)
    secret = document.text("client_secret")
    until: Any = document.fields.get("client_secret_expires_at")
    ends = isinstance(until, int | float) and not isinstance(until, bool) and until > 0
    method = document.text("token_endpoint_auth_method")
    if secret is None:
        method = "none"
    elif method == "none":
        secret = None  # it is a public client, whatever it was given
    elif method is None and wanted != "none":
        method = wanted
    elif method not in (None, *METHODS):
        raise AuthorizationFailed(f"{what} asks for {plain(method)}, which is not known here")
    return Client(
        id=document.needed("client_id"),
        issuer=server.issuer,
        secret=secret,
        secret_until=float(until) if secret and ends else None,
        auth_method=method,
        redirect_uris=about.redirect_uris,
    )


def _refusal(response: Response, what: str) -> AuthorizationFailed:
    try:
        document = Document.read(response.body, what)
        error, description = document.text("error"), document.text("error_description")
    except AuthorizationFailed:
        error = description = None
    if error is None:
        return AuthorizationFailed(f"{what} failed: it answered {response.status}")
    return Denied(error, description or "", status=response.status)
