"""HTTP client contract: the operations that an HTTP library has to provide, so that it can be replaced."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Protocol

import msgspec

CONNECT_SECONDS = 10.0


class ClientResponse(Protocol):
    """The response to one request, once its headers have arrived."""

    @property
    def status(self) -> int:
        """The status code."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers, with lower-case names. Several challenges of a 401 or 403 are joined by commas."""
        ...

    async def chunk(self) -> bytes:
        """The next bytes of the body, decompressed; empty at its end.

        Raises `ConnectionLost` when the body breaks off. What is not asked for is not read, but for a bounded rest.
        """
        ...

    def close(self) -> None:
        """Release the response; if its body was not read to the end, its connection is closed."""
        ...


class HttpClient(Protocol):
    """Sends requests over pooled connections; used on one event loop."""

    async def request(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> ClientResponse:
        """The response, of whatever status. Follows no redirect, keeps no cookies.

        Raises `OutcomeUnknown` where there is none and a POST may have reached the server, `ConnectionLost` where it
        has not. A cancelled request ends its connection.
        """
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...


class HttpOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options for connections over HTTP."""

    proxy: str | None = None
    """The URL of a proxy; else the environment names one (HTTP_PROXY, HTTPS_PROXY, NO_PROXY). "" means none."""
    verify: bool = True
    """True if a server must have a trusted certificate."""
    ca: str | os.PathLike[str] | None = None
    """A file or folder of certificates to trust instead of the system's."""
    cert: str | tuple[str, str] | None = None
    """A client certificate: a file that holds its key too, or a pair of files."""
    connect_timeout: float = CONNECT_SECONDS
    client: HttpClient | None = None
    """Another client to send with; it is not closed, and the options above do not apply to it."""


class Auth(Protocol):
    """Credentials for the requests to one server."""

    async def headers(self, method: str, url: str) -> Mapping[str, str]:
        """The headers for a request; called for each one, and each time that one is sent again."""
        ...

    def accepted(self, url: str, headers: Mapping[str, str]) -> None:
        """The server has accepted a request; `headers` are those of its response."""
        ...

    async def refused(self, url: str, sent: Mapping[str, str], status: int, headers: Mapping[str, str]) -> bool:
        """The server refused these credentials; True if there are others now, with which to send the request again."""
        ...
