"""Discovery of the authorization server that issues tokens for an MCP server.

2026-07-28 authorization server discovery; for servers of the first revision with authorization also
2025-03-26 authorization, "Server Metadata Discovery".
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from urllib.parse import urlsplit

import msgspec

from . import url_guard
from .challenge import NO_CHALLENGE, Challenge
from .errors import AuthorizationFailed, Untrusted, printable
from .http import Flow, get
from .metadata import (
    AuthorizationServer,
    ProtectedResource,
    canonical_url,
    default_endpoints,
    read_authorization_server,
    read_protected_resource,
)

MAX_TRIED = 4
"""The most authorization servers that are tried for one MCP server."""

_PROTECTED = "/.well-known/oauth-protected-resource"
_OAUTH = "/.well-known/oauth-authorization-server"
_OPENID = "/.well-known/openid-configuration"


class DiscoveryResult(msgspec.Struct, frozen=True):
    """The authorization server for an MCP server, and the resource that tokens must be issued for."""

    resource: str
    server: AuthorizationServer
    protected: ProtectedResource | None = None
    """The metadata of the MCP server; None for a server of the first revision with authorization."""


def discover(
    server_url: str,
    challenge: Challenge = NO_CHALLENGE,
    *,
    known: Collection[str] = (),
    headers: Mapping[str, str] | None = None,
) -> Flow[DiscoveryResult]:
    """Find the authorization server of an MCP server; its challenge, if there was one, may name the metadata.

    Authorization servers in `known` are tried first, because the client is already registered there. `headers` are
    sent to the MCP server only, such as the revision that the client prefers.
    """
    protected = yield from find_protected_resource(server_url, challenge, headers)
    if protected is None or not protected.authorization_servers:
        server = yield from find_at_origin(server_url, headers)
        return DiscoveryResult(
            canonical_url(server_url) if protected is None else protected.resource, server, protected
        )
    issuers = sorted(dict.fromkeys(protected.authorization_servers), key=lambda issuer: issuer not in known)
    problem: AuthorizationFailed | None = None
    for issuer in issuers[:MAX_TRIED]:
        try:
            server = yield from find_authorization_server(issuer)
        except Untrusted:
            raise
        except AuthorizationFailed as failed:
            problem = problem or failed
        else:
            return DiscoveryResult(protected.resource, server, protected)
    assert problem is not None
    raise problem


def find_protected_resource(
    server_url: str, challenge: Challenge = NO_CHALLENGE, headers: Mapping[str, str] | None = None
) -> Flow[ProtectedResource | None]:
    """Get the metadata of an MCP server from the URL in its challenge, else from the well-known URLs; None without."""
    named = challenge.resource_metadata
    if named is not None:
        url_guard.check_url(named, "The address of the metadata", source=server_url)
    urls = list(protected_resource_urls(server_url))
    server_origin = url_guard.origin(urlsplit(server_url))
    for url in urls if named is None else [named, *(candidate for candidate in urls if candidate != named)]:
        response = yield get(url, headers if url_guard.origin(urlsplit(url)) == server_origin else None)
        if response.status == 200:
            metadata = read_protected_resource(response.body, url, server_url)
            if metadata is not None:
                return metadata
        elif response.status >= 500:
            # Going on could end at another authorization server than the one that the MCP server names.
            raise AuthorizationFailed(f"{printable(url)} answered {response.status} instead of metadata")
    return None


def find_authorization_server(issuer: str) -> Flow[AuthorizationServer]:
    """Get the metadata of an authorization server."""
    statuses: list[str] = []
    for url in authorization_server_urls(issuer):
        response = yield get(url)
        metadata = read_authorization_server(response.body, url, (issuer,)) if response.status == 200 else None
        if metadata is not None:
            return metadata
        statuses.append(f"{printable(url)}: {response.status}")
    raise AuthorizationFailed(f"{printable(issuer)} has no metadata of an authorization server ({'; '.join(statuses)})")


def find_at_origin(server_url: str, headers: Mapping[str, str] | None = None) -> Flow[AuthorizationServer]:
    """Get the metadata of an MCP server that is its own authorization server, or its default endpoints."""
    parts = urlsplit(canonical_url(server_url))
    base = f"{parts.scheme}://{parts.netloc}"
    for url in authorization_server_urls(base):
        response = yield get(url, headers)
        if response.status == 200:
            metadata = read_authorization_server(response.body, url, (base, f"{base}/"))
            if metadata is not None:
                return metadata
        elif response.status >= 500:
            raise AuthorizationFailed(f"{printable(url)} answered {response.status} instead of metadata")
    url_guard.check_url(base, "The server")  # tokens are never sent without TLS
    return default_endpoints(base)


def protected_resource_urls(server_url: str) -> Iterator[str]:
    """The well-known URLs of the metadata of an MCP server: for its path, then for the root."""
    parts = urlsplit(server_url)
    base = f"{parts.scheme}://{parts.netloc}{_PROTECTED}"
    query = f"?{parts.query}" if parts.query else ""
    path = parts.path if parts.path != "/" else ""
    if path or query:
        yield f"{base}{path}{query}"
    if path.endswith("/"):
        yield f"{base}{path.rstrip('/')}{query}"
    yield base


def authorization_server_urls(issuer: str) -> Iterator[str]:
    """The well-known URLs of the metadata of an authorization server, in the order of the specification."""
    parts = urlsplit(issuer)
    base, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    yield f"{base}{_OAUTH}{path}"
    yield f"{base}{_OPENID}{path}"
    if path:
        yield f"{base}{path}{_OPENID}"
