"""Client ID metadata documents (2026-07-28 client registration)."""

from __future__ import annotations

from dovetail.auth.errors import AuthorizationFailed, printable
from dovetail.auth.http import get
from dovetail.auth.registration import check_document_url
from dovetail.protocol.errors import LocalError
from dovetail.runtime.oauth_http import OAuthHttp
from dovetail.transports.http.contract import HttpOptions

from .clients import KnownClient, parse_client_document
from .errors import RequestError
from .expiring_map import ExpiringMap

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
