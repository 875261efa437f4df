"""Metadata documents of protected resources and authorization servers.

RFC 9728, section 2; RFC 8414, section 2; OpenID Connect Discovery 1.0, section 3.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import msgspec

from . import scopes, url_guard
from .errors import AuthorizationFailed, Untrusted, printable
from .http import Document

MAX_SERVERS = 16
S256 = "S256"


class ProtectedResource(msgspec.Struct, frozen=True, kw_only=True):
    """The metadata of a protected resource, here of an MCP server."""

    resource: str
    """The resource that tokens must be issued for, exactly as the server writes it."""
    authorization_servers: tuple[str, ...] = ()
    scopes_supported: tuple[str, ...] | None = None
    resource_name: str | None = None
    dpop_bound_access_tokens_required: bool = False
    dpop_signing_alg_values_supported: tuple[str, ...] = ()


class AuthorizationServer(msgspec.Struct, frozen=True, kw_only=True):
    """The metadata of an authorization server; all its URLs have been checked."""

    issuer: str
    authorization_endpoint: str | None = None
    token_endpoint: str | None = None
    registration_endpoint: str | None = None
    revocation_endpoint: str | None = None
    introspection_endpoint: str | None = None
    jwks_uri: str | None = None
    scopes_supported: tuple[str, ...] | None = None
    code_challenge_methods_supported: tuple[str, ...] = ()
    grant_types_supported: tuple[str, ...] | None = None
    token_endpoint_auth_methods_supported: tuple[str, ...] | None = None
    token_endpoint_auth_signing_alg_values_supported: tuple[str, ...] | None = None
    dpop_signing_alg_values_supported: tuple[str, ...] = ()
    authorization_response_iss_parameter_supported: bool = False
    client_id_metadata_document_supported: bool = False
    without_metadata: bool = False
    """There was no metadata document: the endpoints are the defaults of a server without one."""

    def check_pkce(self) -> None:
        """Refuse a server that does not declare PKCE with S256.

        2026-07-28 security considerations, "Authorization Code Protection". A server without metadata cannot
        declare it, and must support it anyway (2025-03-26 authorization, "Implementation Requirements").
        """
        if S256 not in self.code_challenge_methods_supported and not self.without_metadata:
            raise Untrusted(
                f"{printable(self.issuer)} does not support PKCE with S256, which protects authorization codes"
            )


def read_protected_resource(body: bytes, where: str, server_url: str) -> ProtectedResource | None:
    """Read the metadata of the MCP server at a URL; None if the document is something else altogether.

    RFC 9728, section 3.3: metadata of another resource must not be used.
    """
    document = _document(body, f"The metadata at {printable(where)}", ("resource", "authorization_servers"))
    if document is None:
        return None
    resource = document.needed("resource")
    if not covers(resource, server_url):
        raise Untrusted(
            f"The metadata at {printable(where)} are those of {printable(resource)}, not of {printable(server_url)}: "
            f"a token for the one must not be sent to the other"
        )
    servers = document.texts("authorization_servers", MAX_SERVERS) or ()
    for issuer in servers:
        check_issuer(issuer, source=server_url)
    supported = document.texts("scopes_supported")
    return ProtectedResource(
        resource=resource,
        authorization_servers=servers,
        scopes_supported=None if supported is None else scopes.valid_scopes(supported),
        resource_name=document.text("resource_name"),
        dpop_bound_access_tokens_required=document.flag("dpop_bound_access_tokens_required"),
        dpop_signing_alg_values_supported=document.texts("dpop_signing_alg_values_supported") or (),
    )


_ENDPOINTS = (
    *("authorization_endpoint", "token_endpoint", "registration_endpoint"),
    *("revocation_endpoint", "introspection_endpoint", "jwks_uri"),
)
_LISTS = (
    *("grant_types_supported", "token_endpoint_auth_methods_supported"),
    "token_endpoint_auth_signing_alg_values_supported",
)


def read_authorization_server(body: bytes, where: str, issuers: tuple[str, ...]) -> AuthorizationServer | None:
    """Read the metadata of an authorization server; None if the document is something else altogether.

    2026-07-28 authorization server discovery, "Authorization Server Metadata Discovery": the issuer must
    be exactly one of `issuers`. There is more than one only if it was derived from the URL of the MCP server.
    """
    document = _document(body, f"The metadata at {printable(where)}", ("issuer",))
    if document is None:
        return None
    issuer = document.needed("issuer")
    if issuer not in issuers:
        raise Untrusted(
            f"The metadata at {printable(where)} are those of {printable(issuer)}, not of {printable(issuers[0])}"
        )
    fields: dict[str, Any] = {name: document.texts(name) for name in _LISTS}
    for name in _ENDPOINTS:
        endpoint = fields[name] = document.text(name)
        if endpoint is not None:
            url_guard.check_url(endpoint, f"The {name} of {printable(issuer)}", source=issuer)
    supported = document.texts("scopes_supported", 4096)
    return AuthorizationServer(
        issuer=issuer,
        scopes_supported=None if supported is None else tuple(supported),
        code_challenge_methods_supported=document.texts("code_challenge_methods_supported") or (),
        dpop_signing_alg_values_supported=document.texts("dpop_signing_alg_values_supported") or (),
        authorization_response_iss_parameter_supported=document.flag("authorization_response_iss_parameter_supported"),
        client_id_metadata_document_supported=document.flag("client_id_metadata_document_supported"),
        **fields,
    )


def default_endpoints(base: str) -> AuthorizationServer:
    """The endpoints of a server without metadata (2025-03-26 authorization, "Fallbacks for Servers without …")."""
    return AuthorizationServer(
        issuer=base,
        authorization_endpoint=f"{base}/authorize",
        token_endpoint=f"{base}/token",
        registration_endpoint=f"{base}/register",
        without_metadata=True,
    )


def check_issuer(issuer: str, *, source: str | None = None) -> None:
    """Refuse a URL that cannot be the identifier of an authorization server (RFC 8414, section 2)."""
    parts = url_guard.check_url(issuer, "The authorization server", source=source)
    if "?" in issuer:
        raise Untrusted(f"The authorization server has a query, which is not allowed: {printable(parts.geturl())}")


def canonical_url(url: str) -> str:
    """The canonical identifier of an MCP server (2026-07-28 authorization, "Canonical Server URI").

    Scheme and host in lower case, without the default port, without a fragment, without a path that is only a slash.
    """
    parts = urlsplit(url)
    _, host, port = url_guard.origin(parts)
    host = f"[{host}]" if ":" in host else host
    default_port = {"https": 443, "http": 80}.get(parts.scheme)
    authority = host if port == default_port else f"{host}:{port}"
    path = "" if parts.path == "/" else parts.path
    return f"{parts.scheme}://{authority}{path}" + (f"?{parts.query}" if parts.query else "")


def covers(resource: str, server_url: str) -> bool:
    """True if a resource is the server at a URL, or a path that the server is below.

    Metadata may be at the root of a server's origin (2026-07-28 authorization server discovery, "Protected Resource
    Metadata Discovery Requirements"), and then covers everything there. Paths are compared segment by segment.
    """
    try:
        named = url_guard.check_url(resource, "The resource")
    except Untrusted:
        return False
    actual = urlsplit(server_url)
    if url_guard.origin(named) != url_guard.origin(actual) or (named.query and named.query != actual.query):
        return False
    whole, part = actual.path.rstrip("/").split("/"), named.path.rstrip("/").split("/")
    return whole[: len(part)] == part and not {".", ".."} & {*whole, *part}


def encode_protected_resource(resource: ProtectedResource) -> bytes:
    """Encode the metadata document of a protected resource."""
    given = {name: value for name, value in msgspec.structs.asdict(resource).items() if value not in (None, (), False)}
    return msgspec.json.encode(
        {**given, "bearer_methods_supported": ["header"], "authorization_servers": list(resource.authorization_servers)}
    )


def _document(body: bytes, what: str, required_any: tuple[str, ...]) -> Document | None:
    # Some servers answer every path with a page or other JSON: that is no metadata, and no attack.
    try:
        document = Document.read(body, what)
    except AuthorizationFailed:
        return None
    return document if any(name in document.fields for name in required_any) else None
