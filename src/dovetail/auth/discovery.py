"""From the URL of a server to the authorization server that gives out tokens for it.

2026-07-28 authorization server discovery; for servers of the first revision with authorization also
2025-03-26 authorization, "Server Metadata Discovery".
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from urllib.parse import urlsplit

import msgspec

from . import url_guard
from .challenge import NOTHING, Challenge
from .errors import AuthorizationFailed, Untrusted, plain
from .http import Flow, get
from .metadata import AuthorizationServer, ProtectedResource, canonical, presumed, read_protected, read_server

MAX_TRIED = 4
"""How many of the authorization servers of one server are tried."""

_PROTECTED = "/.well-known/oauth-protected-resource"
_OAUTH = "/.well-known/oauth-authorization-server"
_OPENID = "/.well-known/openid-configuration"


class Discovered(msgspec.Struct, frozen=True):
    """Where to get a token for a server, and what it must be meant for."""

    resource: str
    server: AuthorizationServer
    protected: ProtectedResource | None = None
    """What the server says of itself; None for one of the first revision with authorization."""


def discover(
    server_url: str,
    challenge: Challenge = NOTHING,
    *,
    known: Collection[str] = (),
    headers: Mapping[str, str] | None = None,
) -> Flow[Discovered]:
    """Find the authorization server of a server that sent a challenge, or none.

    Of several authorization servers those in `known` come first: there the client is registered already. `headers` go
    to the server itself, such as the revision that the client prefers.
    """
    protected = yield from find_protected(server_url, challenge, headers)
    if protected is None or not protected.authorization_servers:
        server = yield from find_at_origin(server_url, headers)
        return Discovered(canonical(server_url) if protected is None else protected.resource, server, protected)
    issuers = sorted(dict.fromkeys(protected.authorization_servers), key=lambda issuer: issuer not in known)
    problem: AuthorizationFailed | None = None
    for issuer in issuers[:MAX_TRIED]:
        try:
            server = yield from find_server(issuer)
        except Untrusted:
            raise
        except AuthorizationFailed as failed:
            problem = problem or failed
        else:
            return Discovered(protected.resource, server, protected)
    assert problem is not None
    raise problem


def find_protected(
    server_url: str, challenge: Challenge = NOTHING, headers: Mapping[str, str] | None = None
) -> Flow[ProtectedResource | None]:
    """The metadata of a server: where its challenge says, else at the well-known places; None if it has none."""
    named = challenge.resource_metadata
    if named is not None:
        url_guard.check_url(named, "The address of the metadata", beside=server_url)
    places = list(protected_places(server_url))
    home = url_guard.origin(urlsplit(server_url))
    for url in places if named is None else [named, *(place for place in places if place != named)]:
        response = yield get(url, headers if url_guard.origin(urlsplit(url)) == home else None)
        if response.status == 200:
            found = read_protected(response.body, url, server_url)
            if found is not None:
                return found
        elif response.status >= 500:
            # To go on would be to take another authorization server than the one that the server names.
            raise AuthorizationFailed(f"{plain(url)} answered {response.status} instead of metadata")
    return None


def find_server(issuer: str) -> Flow[AuthorizationServer]:
    """The metadata of an authorization server."""
    statuses: list[str] = []
    for url in server_places(issuer):
        response = yield get(url)
        found = read_server(response.body, url, (issuer,)) if response.status == 200 else None
        if found is not None:
            return found
        statuses.append(f"{plain(url)}: {response.status}")
    raise AuthorizationFailed(f"{plain(issuer)} has no metadata of an authorization server ({'; '.join(statuses)})")


def find_at_origin(server_url: str, headers: Mapping[str, str] | None = None) -> Flow[AuthorizationServer]:
    """A server that is its own authorization server: its metadata, or the endpoints it has without any."""
    parts = urlsplit(canonical(server_url))
    base = f"{parts.scheme}://{parts.netloc}"
    for url in server_places(base):
        response = yield get(url, headers)
        if response.status == 200:
            found = read_server(response.body, url, (base, f"{base}/"))
            if found is not None:
                return found
        elif response.status >= 500:
            raise AuthorizationFailed(f"{plain(url)} answered {response.status} instead of metadata")
    url_guard.check_url(base, "The server")  # tokens go nowhere without protection
    return presumed(base)


def protected_places(server_url: str) -> Iterator[str]:
    """Where the metadata of a server may be: at its path, then at the root."""
    parts = urlsplit(server_url)
    base = f"{parts.scheme}://{parts.netloc}{_PROTECTED}"
    query = f"?{parts.query}" if parts.query else ""
    path = parts.path if parts.path != "/" else ""
    if path or query:
        yield f"{base}{path}{query}"
    if path.endswith("/"):
        yield f"{base}{path.rstrip('/')}{query}"
    yield base


def server_places(issuer: str) -> Iterator[str]:
    """Where the metadata of an authorization server may be, in the order of the specification."""
    parts = urlsplit(issuer)
    base, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    yield f"{base}{_OAUTH}{path}"
    yield f"{base}{_OPENID}{path}"
    if path:
        yield f"{base}{path}{_OPENID}"
