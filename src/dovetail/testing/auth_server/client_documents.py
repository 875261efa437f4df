"""Clients that are known by the URL of a document about them (2026-07-28 client registration)."""

from __future__ import annotations

from dovetail.auth.errors import AuthorizationFailed, printable
from dovetail.auth.http import get
from dovetail.auth.registration import check_document_url
from dovetail.protocol.errors import LocalError
from dovetail.runtime.oauth_http import OAuthHttp
from dovetail.transports.http.contract import HttpOptions

from .clients import KnownClient, read_document
from .errors import Problem
from .expiring_map import Shelf

KEPT_SECONDS = 300.0


class Documents:
    """Reads such documents, and keeps them for a while."""

    def __init__(self, options: HttpOptions | None) -> None:
        self._options = options or HttpOptions()
        self._kept: Shelf[KnownClient] = Shelf(KEPT_SECONDS, 1000)

    async def find(self, url: str, issuer: str, now: float) -> KnownClient:
        """The client that the document at a URL is about; the issuer says what may be reached from here."""
        known = self._kept.get(url, now)
        if known is not None:
            return known
        try:
            check_document_url(url)
            response = await OAuthHttp(issuer, self._options).send(get(url))
            if response.status != 200:
                raise Problem("invalid_client", f"{printable(url)} answered {response.status} instead of a document")
            client = read_document(url, response.body)
        except (AuthorizationFailed, LocalError) as problem:
            raise Problem("invalid_client", str(problem)) from None
        self._kept.put(url, client, now)
        return client
