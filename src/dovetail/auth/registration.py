"""Client registration at an authorization server.

2026-07-28 client registration: configured credentials, else the URL of a client metadata document, else dynamic
registration (RFC 7591).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

import msgspec

from dovetail.protocol.errors import LocalError

from . import url_guard
from .client_authentication import METHODS, OAuthClient
from .errors import AuthorizationFailed, ClientNeeded, Denied, LoginNotOffered, Untrusted, printable
from .http import Document, Flow, OAuthResponse, post_json
from .metadata import AuthorizationServer


class ClientMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """The client metadata shown to an authorization server and its users (RFC 7591, section 2)."""

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
        """`native` if it runs on the user's machine, else `web` ("Application Type and Redirect URI Constraints")."""
        hosts = [urlsplit(uri).hostname or "" for uri in self.redirect_uris]
        return "native" if all(map(url_guard.is_loopback, hosts)) else "web"

    def document(self, client_id: str) -> dict[str, Any]:
        """The client metadata document, to serve at the URL that is the client identifier."""
        check_document_url(client_id)
        return {"client_id": client_id, **self.fields("none")}

    def fields(self, method: str, scope: Iterable[str] = ()) -> dict[str, Any]:
        """The fields of a registration request."""
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


def get_client(
    server: AuthorizationServer,
    metadata: ClientMetadata,
    *,
    now: float,
    configured: OAuthClient | None = None,
    document: str | None = None,
    registered: OAuthClient | None = None,
    scope: Iterable[str] = (),
) -> Flow[OAuthClient]:
    """Get a client that is registered with the authorization server, and bound to it.

    `configured` was registered by hand, `document` is the URL of a client metadata document, and `registered` the
    result of an earlier registration. Configured credentials of another authorization server are an error, and are
    not silently ignored.
    """
    if configured is not None:
        return configured.at(server.issuer)
    if document is not None and server.client_id_metadata_document_supported:
        check_document_url(document)
        return OAuthClient(id=document, portable=True, auth_method="none", redirect_uris=metadata.redirect_uris)
    if (
        registered is not None
        and registered.issuer == server.issuer
        and not registered.expired(now)
        and _has_redirects(registered, metadata)
    ):
        return registered
    if server.registration_endpoint is None:
        raise ClientNeeded(
            f"{printable(server.issuer)} allows no registration of clients: "
            f"register one there by hand, and pass its identifier (client_id)"
        )
    return (yield from register(server, metadata, scope))


def register(server: AuthorizationServer, metadata: ClientMetadata, scope: Iterable[str] = ()) -> Flow[OAuthClient]:
    """Register a new client dynamically."""
    endpoint = server.registration_endpoint
    assert endpoint is not None
    requested = metadata.fields(_auth_method(server), scope)
    response = yield post_json(endpoint, requested)
    return _registered(server, response, requested["token_endpoint_auth_method"], metadata)


def check_redirect(uri: str) -> None:
    """Refuse a redirect URI that is neither https nor loopback (2026-07-28 security, "Communication Security")."""
    try:
        url_guard.check_url(uri, "A redirect URI")
    except Untrusted as problem:
        raise LocalError(str(problem)) from None


def check_document_url(url: str) -> None:
    """Refuse a URL that cannot identify a client by a metadata document: it must be https, with a path."""
    try:
        parts = url_guard.check_url(url, "The URL of the client's document")
    except Untrusted as problem:
        raise LocalError(str(problem)) from None
    if parts.scheme != "https" or parts.path in ("", "/") or {".", ".."} & set(parts.path.split("/")):
        raise LocalError(f"The URL of the client's document must be https, with a path: {url}")


def _has_redirects(known: OAuthClient, metadata: ClientMetadata) -> bool:
    """True if the client was registered with the redirect URIs, or if they are unknown: it was registered by hand."""
    return not known.redirect_uris or set(metadata.redirect_uris) <= set(known.redirect_uris)


def _auth_method(server: AuthorizationServer) -> str:
    accepted = server.token_endpoint_auth_methods_supported
    if accepted is None or "none" in accepted:
        return "none"
    return next((each for each in ("client_secret_basic", "client_secret_post") if each in accepted), "none")


def _registered(
    server: AuthorizationServer, response: OAuthResponse, requested: str, metadata: ClientMetadata
) -> OAuthClient:
    what = f"The registration at {printable(server.issuer)}"
    if response.status not in (200, 201):
        if server.without_metadata and response.status in (404, 405):
            raise LoginNotOffered(f"{printable(server.issuer)} offers no login: it has no metadata and no registration")
        raise _refusal(response, what)
    document = Document.read(response.body, what)
    secret = document.text("client_secret")
    until: Any = document.fields.get("client_secret_expires_at")
    ends = isinstance(until, int | float) and not isinstance(until, bool) and until > 0
    method = document.text("token_endpoint_auth_method")
    if secret is None:
        method = "none"
    elif method == "none":
        secret = None  # a public client, even if it got a secret
    elif method is None and requested != "none":
        method = requested
    elif method not in (None, *METHODS):
        raise AuthorizationFailed(f"{what} requires {printable(method)}, which is not supported")
    return OAuthClient(
        id=document.needed("client_id"),
        issuer=server.issuer,
        secret=secret,
        secret_until=float(until) if secret and ends else None,
        auth_method=method,
        redirect_uris=metadata.redirect_uris,
    )


def _refusal(response: OAuthResponse, what: str) -> AuthorizationFailed:
    try:
        document = Document.read(response.body, what)
        error, description = document.text("error"), document.text("error_description")
    except AuthorizationFailed:
        error = description = None
    if error is None:
        return AuthorizationFailed(f"{what} failed: it answered {response.status}")
    return Denied(error, description or "", status=response.status)
