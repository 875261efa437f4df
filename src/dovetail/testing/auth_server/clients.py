"""Clients: registration, and metadata documents at a client's own URL.

RFC 7591; RFC 8252, section 7.3; 2026-07-28 client registration, "Application Type and Redirect URI Constraints" and
"Client ID Metadata Documents".
"""

from __future__ import annotations

import hmac
from hashlib import sha256
from typing import Any
from urllib.parse import urlsplit

import msgspec

from dovetail.auth import url_guard
from dovetail.auth.errors import AuthorizationFailed, TokenRefused, Untrusted, printable
from dovetail.auth.http import Document, Random, get
from dovetail.auth.jwk import PublicKey, decode64, encode64
from dovetail.auth.registration import check_document_url
from dovetail.protocol.errors import LocalError
from dovetail.runtime.oauth_http import OAuthHttp
from dovetail.transports.http.contract import HttpOptions

from .errors import RequestError
from .expiring_map import ExpiringMap

CODE = "authorization_code"
REFRESH = "refresh_token"
CREDENTIALS = "client_credentials"
PUBLIC = "none"
METHODS = ("none", "client_secret_basic", "client_secret_post", "private_key_jwt")
MAX_ID = 2000
MAX_NAME = 100
MAX_URIS = 10

_PREFIX = "dev."


class KnownClient(msgspec.Struct, frozen=True, kw_only=True):
    """A registered client."""

    id: str
    name: str
    redirect_uris: tuple[str, ...] = ()
    grants: tuple[str, ...] = (CODE, REFRESH)
    method: str = PUBLIC
    secret: str | None = None
    key: PublicKey | None = None

    def __repr__(self) -> str:
        return f"KnownClient(id={self.id!r}, name={self.name!r})"

    def check_redirect(self, uri: str) -> None:
        """Fail if the redirect URI is not registered; only the port of a loopback address may differ.

        A program cannot know which port will be free when the user logs in (RFC 8252, section 7.3).
        """
        if uri not in self.redirect_uris and not any(_same_but_port(one, uri) for one in self.redirect_uris):
            raise RequestError("invalid_request", "The client did not register this redirect_uri")


class ClientRegistry:
    """Clients that were added, and clients that registered dynamically.

    The id of a client that registered contains its metadata, so that it survives a restart and takes no memory. Such
    an id can be made up, but that is no more than to register.
    """

    def __init__(self, random: Random) -> None:
        self._random = random
        self._secret_key = random(32)
        self._added: dict[str, KnownClient] = {}

    def add(self, client: KnownClient) -> None:
        """Add a client."""
        self._added[client.id] = client

    def find(self, client_id: str) -> KnownClient | None:
        """Find a client by id."""
        return self._added.get(client_id) or self._recall(client_id)

    def register(self, document: Document) -> KnownClient:
        """Register a client from its metadata."""
        about = parse_client_metadata(document)
        salt = encode64(self._random(9))
        client_id = _PREFIX + encode64(
            msgspec.json.encode([salt, about.name, about.redirect_uris, about.grants, about.method])
        )
        if len(client_id) > MAX_ID:
            raise RequestError("invalid_client_metadata", "The client metadata is too large")
        client = self._recall(client_id)
        assert client is not None
        return client

    def _recall(self, client_id: str) -> KnownClient | None:
        if not client_id.startswith(_PREFIX) or len(client_id) > MAX_ID:
            return None
        try:
            decoded = msgspec.json.decode(
                decode64(client_id.removeprefix(_PREFIX)),
                type=tuple[str, str, tuple[str, ...], tuple[str, ...], str],
            )
            _, name, uris, grants, method = decoded
            about = {"client_name": name, "redirect_uris": uris, "grant_types": grants}
            client = parse_client_metadata(Document({**about, "token_endpoint_auth_method": method}, "The client"))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, TokenRefused, RequestError):
            return None
        secret = None
        if client.method != PUBLIC:
            secret = encode64(hmac.digest(self._secret_key, client_id.encode(), sha256))
        return msgspec.structs.replace(client, id=client_id, secret=secret)


def parse_client_metadata(document: Document) -> KnownClient:
    """Parse client metadata, without an id yet; unsupported grants are left out."""
    try:
        uris = document.texts("redirect_uris", MAX_URIS) or ()
        named = document.texts("grant_types") or (CODE,)
        kind = document.text("application_type")
        method = document.text("token_endpoint_auth_method") or "client_secret_basic"
        name = document.text("client_name", MAX_NAME) or "A client without a name"
    except AuthorizationFailed as problem:
        raise RequestError("invalid_client_metadata", str(problem)) from None
    if method not in METHODS or method == "private_key_jwt":
        raise RequestError(
            "invalid_client_metadata", f"Supported methods of client authentication: {', '.join(METHODS[:3])}"
        )
    if kind not in (None, "native", "web"):
        raise RequestError("invalid_client_metadata", "The application_type is native or web")
    if not uris:
        raise RequestError("invalid_redirect_uri", "There is no redirect_uri")
    for uri in uris:
        _check_redirect(uri, kind)
    # Clients for the client credentials grant must be added explicitly: else everyone could get tokens.
    grants = tuple(grant for grant in (CODE, REFRESH) if grant in named)
    if CODE not in grants:
        raise RequestError("invalid_client_metadata", "Clients that register use authorization_code")
    return KnownClient(id="", name=name, redirect_uris=uris, grants=grants, method=method)


def parse_client_document(url: str, body: bytes) -> KnownClient:
    """Parse the metadata document at a URL; such a client has no secret."""
    document = Document.read(body, "The document about the client")
    if document.needed("client_id") != url:
        raise RequestError("invalid_client", "The document about the client is that of another one")
    if "client_secret" in document.fields:
        raise RequestError("invalid_client", "The document about the client has a secret in it")
    about = parse_client_metadata(Document({**document.fields, "token_endpoint_auth_method": PUBLIC}, document.what))
    return msgspec.structs.replace(about, id=url)


def registration_response(client: KnownClient, now: float) -> dict[str, Any]:
    """The answer to a registration (RFC 7591, section 3.2.1)."""
    about: dict[str, Any] = {
        "client_id": client.id,
        "client_id_issued_at": int(now),
        "client_name": client.name,
        "redirect_uris": client.redirect_uris,
        "grant_types": client.grants,
        "response_types": ["code"],
        "token_endpoint_auth_method": client.method,
    }
    if client.secret is not None:
        about |= {"client_secret": client.secret, "client_secret_expires_at": 0}
    return about


def _check_redirect(uri: str, kind: str | None) -> None:
    try:
        parts = url_guard.check_url(uri, "A redirect URI")
    except Untrusted as problem:
        raise RequestError("invalid_redirect_uri", str(problem)) from None
    if kind == "web" and url_guard.is_loopback(parts.hostname or ""):
        raise RequestError("invalid_redirect_uri", "Only a native application is sent back to this machine")


def _same_but_port(registered: str, uri: str) -> bool:
    try:
        one, other = urlsplit(registered), url_guard.check_url(uri, "A redirect URI")
    except Untrusted:
        return False
    local = one.scheme == other.scheme == "http" and one.hostname == other.hostname
    return local and (one.path, one.query) == (other.path, other.query)


KEPT_SECONDS = 300.0


class ClientDocuments:
    """Fetches metadata documents and caches them."""

    def __init__(self, options: HttpOptions | None) -> None:
        self._options = options or HttpOptions()
        self._kept: ExpiringMap[KnownClient] = ExpiringMap(KEPT_SECONDS, 1000)

    async def find(self, url: str, issuer: str, now: float) -> KnownClient:
        """The client described at a URL; the issuer decides which addresses may be fetched."""
        known = self._kept.get(url, now)
        if known is not None:
            return known
        try:
            check_document_url(url)
            response = await OAuthHttp(issuer, self._options).send(get(url))
            if response.status != 200:
                raise RequestError("invalid_client", f"{printable(url)} responded with {response.status}")
            client = parse_client_document(url, response.body)
        except (AuthorizationFailed, LocalError) as problem:
            raise RequestError("invalid_client", str(problem)) from None
        self._kept.put(url, client, now)
        return client
