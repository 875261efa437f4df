"""What a protected resource and an authorization server say of themselves.

RFC 9728, section 2; RFC 8414, section 2; OpenID Connect Discovery 1.0, section 3.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import msgspec

from . import scopes, url_guard
from .errors import AuthorizationFailed, Untrusted, plain
from .http import Document

MAX_SERVERS = 16
S256 = "S256"


class ProtectedResource(msgspec.Struct, frozen=True, kw_only=True):
    """The metadata of a protected resource, here of an MCP server."""

    resource: str
    """What a token must be meant for, letter by letter as the server has it."""
    authorization_servers: tuple[str, ...] = ()
    scopes_supported: tuple[str, ...] | None = None
    resource_name: str | None = None
    dpop_bound_access_tokens_required: bool = False
    dpop_signing_alg_values_supported: tuple[str, ...] = ()


class AuthorizationServer(msgspec.Struct, frozen=True, kw_only=True):
    """The metadata of an authorization server, each URL of which may be used."""

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
    presumed: bool = False
    """Whether there were no metadata, and the endpoints are those that a server without them must have."""

    def check_pkce(self) -> None:
        """Refuse a server that does not say it has PKCE with S256.

        2026-07-28 security considerations, "Authorization Code Protection". One without metadata cannot say so, and
        must have it anyway (2025-03-26 authorization, "Implementation Requirements").
        """
        if S256 not in self.code_challenge_methods_supported and not self.presumed:
            raise Untrusted(f"{plain(self.issuer)} does not offer PKCE with S256: a code could be stolen on its way")


def read_protected(body: bytes, where: str, server_url: str) -> ProtectedResource | None:
    """The metadata of the server at a URL; None if the document is something else altogether.

    RFC 9728, section 3.3: metadata of another resource must not be used.
    """
    document = _document(body, f"The metadata at {plain(where)}", ("resource", "authorization_servers"))
    if document is None:
        return None
    resource = document.needed("resource")
    if not covers(resource, server_url):
        raise Untrusted(
            f"The metadata at {plain(where)} are those of {plain(resource)}, not of {plain(server_url)}: "
            f"a token for the one must not be sent to the other"
        )
    servers = document.texts("authorization_servers", MAX_SERVERS) or ()
    for issuer in servers:
        check_issuer(issuer, beside=server_url)
    supported = document.texts("scopes_supported")
    return ProtectedResource(
        resource=resource,
        authorization_servers=servers,
        scopes_supported=None if supported is None else scopes.cleaned(supported),
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


def read_server(body: bytes, where: str, issuers: tuple[str, ...]) -> AuthorizationServer | None:
    """The metadata of an authorization server; None if the document is something else altogether.

    2026-07-28 authorization server discovery, "Authorization Server Metadata Discovery": the issuer is the one that
    was asked for, letter by letter. There is more than one only where it was made up from the address of the server.
    """
    document = _document(body, f"The metadata at {plain(where)}", ("issuer",))
    if document is None:
        return None
    issuer = document.needed("issuer")
    if issuer not in issuers:
        raise Untrusted(f"The metadata at {plain(where)} are those of {plain(issuer)}, not of {plain(issuers[0])}")
    fields: dict[str, Any] = {name: document.texts(name) for name in _LISTS}
    for name in _ENDPOINTS:
        endpoint = fields[name] = document.text(name)
        if endpoint is not None:
            url_guard.check_url(endpoint, f"The {name} of {plain(issuer)}", beside=issuer)
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


def presumed(base: str) -> AuthorizationServer:
    """What a server without metadata must have (2025-03-26 authorization, "Fallbacks for Servers without …")."""
    return AuthorizationServer(
        issuer=base,
        authorization_endpoint=f"{base}/authorize",
        token_endpoint=f"{base}/token",
        registration_endpoint=f"{base}/register",
        presumed=True,
    )


def check_issuer(issuer: str, *, beside: str | None = None) -> None:
    """Refuse what cannot be the identifier of an authorization server (RFC 8414, section 2)."""
    parts = url_guard.check_url(issuer, "The authorization server", beside=beside)
    if "?" in issuer:
        raise Untrusted(f"The authorization server has a query, which it must not: {plain(parts.geturl())}")


def canonical(url: str) -> str:
    """The identifier of a server with this URL (2026-07-28 authorization, "Canonical Server URI").

    Scheme and host in lower case, no port that goes without saying, no fragment, no slash that is all of a path.
    """
    parts = urlsplit(url)
    _, host, port = url_guard.origin(parts)
    host = f"[{host}]" if ":" in host else host
    usual = {"https": 443, "http": 80}.get(parts.scheme)
    place = host if port == usual else f"{host}:{port}"
    path = "" if parts.path == "/" else parts.path
    return f"{parts.scheme}://{place}{path}" + (f"?{parts.query}" if parts.query else "")


def covers(resource: str, server_url: str) -> bool:
    """Whether a resource is the server at a URL, or all that is below a path where the server is too.

    Metadata may be at the root of a server's origin (2026-07-28 authorization server discovery, "Protected Resource
    Metadata Discovery Requirements"), and are then those of everything there. Paths are compared part by part.
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


def write_protected(resource: ProtectedResource) -> bytes:
    """The document that a server serves of itself."""
    given = {name: value for name, value in msgspec.structs.asdict(resource).items() if value not in (None, (), False)}
    return msgspec.json.encode(
        {**given, "bearer_methods_supported": ["header"], "authorization_servers": list(resource.authorization_servers)}
    )


def _document(body: bytes, what: str, marks: tuple[str, ...]) -> Document | None:
    # Some servers answer every path, with a page or some JSON of theirs: that is no metadata, and no attack.
    try:
        document = Document.read(body, what)
    except AuthorizationFailed:
        return None
    return document if any(mark in document.fields for mark in marks) else None
