"""What is asked of an HTTP client library, so that another one can take its place."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Protocol

import msgspec

CONNECT_SECONDS = 10.0


class ClientResponse(Protocol):
    """The answer to one request, once its headers are there."""

    @property
    def status(self) -> int:
        """The status code."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers; a name is looked up in lower case. Several challenges in a refusal are joined by commas."""
        ...

    async def chunk(self) -> bytes:
        """The next bytes of the body, decompressed; none at its end.

        Raises `ConnectionLost` when the body breaks off. What is not asked for is not read, but for a bounded rest.
        """
        ...

    def close(self) -> None:
        """Let go of the answer; where the body was not read to its end, its connection ends."""
        ...


class HttpClient(Protocol):
    """Sends requests over connections that it keeps for the next one; used on one event loop."""

    async def request(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> ClientResponse:
        """The answer, of whatever status. Follows no redirect, keeps no cookies.

        Raises `ConnectionLost` where there is none. A cancelled request ends its connection.
        """
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...


class HttpOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How to reach servers over HTTP."""

    proxy: str | None = None
    """The URL of a proxy; else the environment names one (HTTP_PROXY, HTTPS_PROXY, NO_PROXY). "" means none."""
    verify: bool = True
    """Whether a server must show a certificate that can be trusted."""
    ca: str | os.PathLike[str] | None = None
    """A file or folder of certificates to trust instead of the system's."""
    cert: str | tuple[str, str] | None = None
    """A certificate to show: a file that holds its key too, or a pair of files."""
    connect_timeout: float = CONNECT_SECONDS
    client: HttpClient | None = None
    """Another client to send with; it stays open, and the options above are its own business."""


class Auth(Protocol):
    """Credentials for the requests to one server."""

    async def headers(self, method: str, url: str) -> Mapping[str, str]:
        """What to send with a request; asked for each one, and each time that one is sent again."""
        ...

    def accepted(self, url: str, headers: Mapping[str, str]) -> None:
        """A server let a request through; these are the headers of its answer."""
        ...

    async def refused(self, url: str, sent: Mapping[str, str], status: int, headers: Mapping[str, str]) -> bool:
        """A server refused these credentials; whether there are others now, to try the request once more."""
        ...
