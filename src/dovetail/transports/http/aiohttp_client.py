"""HTTP requests through aiohttp (docs/adr/0013)."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from dovetail.protocol.errors import ConnectionLost, LocalError, OutcomeUnknown
from dovetail.transports.http.tls import tls_context
from dovetail.types.errors import missing_extra

from .contract import HttpOptions

if TYPE_CHECKING:
    import aiohttp
    from aiohttp.abc import AbstractResolver

KEEP_SECONDS = 4.0
"""Idle connections are closed before common servers close them (5 s): a POST that crosses such an end is lost."""

_LARGE = 1024 * 1024
_CHALLENGE = "www-authenticate"


class AiohttpClient:
    """HTTP client with a pool of connections to one server."""

    def __init__(self, options: HttpOptions, url: str, addresses: Sequence[str] | None = None) -> None:
        """`addresses` replace the name resolution of the host; with a proxy they are not used."""
        try:
            import aiohttp
        except ImportError:
            raise missing_extra("http", "A connection over HTTP") from None
        self._proxy = find_proxy(options.proxy, url)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=0,
                keepalive_timeout=KEEP_SECONDS,
                ssl=tls_context(options) or True,
                resolver=None if addresses is None or self._proxy else _pinned(addresses),
            ),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=options.connect_timeout),
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        self._failures = (aiohttp.ClientError, OSError, ValueError)

    async def request(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> AiohttpResponse:
        """Send one request."""
        data: object = body
        if body is not None and len(body) > _LARGE:
            import io

            # aiohttp warns of large bytes, which it writes in one go.
            data = io.BytesIO(body)
        try:
            answer = await self._session.request(
                method, url, headers=headers, data=data, allow_redirects=False, proxy=self._proxy
            )
        except self._failures as problem:
            text = self._why(url, problem)
            was_sent = method == "POST" and not _failed_to_connect(problem)
            raise OutcomeUnknown(text) if was_sent else ConnectionLost(text) from problem
        return AiohttpResponse(answer, self._failures)

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()

    def _why(self, url: str, problem: Exception) -> str:
        import ssl

        import aiohttp

        through = f" through the proxy {_without_secret(self._proxy)}" if self._proxy else ""
        place = f"{url}{through}"
        if isinstance(problem, (aiohttp.ClientConnectorCertificateError, aiohttp.ClientSSLError, ssl.SSLError)):
            return f"No safe connection to {place}: {problem}. Check its certificate and scheme, or see HttpOptions"
        if isinstance(problem, aiohttp.ClientHttpProxyError):
            return f"Could not reach {place}: the proxy answered {problem.status} {problem.message}"
        if isinstance(problem, TimeoutError):
            return f"Could not reach {place}: no connection in time"
        if isinstance(problem, aiohttp.ClientConnectorError):
            return f"Could not reach {place}: {problem.os_error.strerror or problem.os_error}. Is the server running?"
        if isinstance(problem, aiohttp.ServerDisconnectedError):
            return f"{place} closed the connection without an answer"
        if isinstance(problem, aiohttp.ClientResponseError):
            return f"{place} answered with something that is not HTTP: {problem.message.strip()[:200]}"
        return f"Could not reach {place}: {str(problem) or type(problem).__name__}"


class AiohttpResponse:
    """Response of aiohttp."""

    __slots__ = ("_answer", "_content", "_failures", "headers", "status")

    def __init__(self, answer: aiohttp.ClientResponse, failures: tuple[type[Exception], ...]) -> None:
        self._answer = answer
        self._content = answer.content
        self._failures = failures
        self.status = answer.status
        self.headers: Mapping[str, str] = answer.headers
        if self.status in (401, 403):
            challenges = answer.headers.getall(_CHALLENGE, ())
            if len(challenges) > 1:
                joined = ", ".join(challenges)
                self.headers = {**{name.lower(): value for name, value in answer.headers.items()}, _CHALLENGE: joined}

    async def chunk(self) -> bytes:
        """The next bytes of the body."""
        try:
            return await self._content.readany()
        except self._failures as problem:
            raise ConnectionLost(f"the body broke off: {str(problem) or type(problem).__name__}") from problem

    def close(self) -> None:
        """Release the response."""
        self._answer.close()


def _failed_to_connect(problem: Exception) -> bool:
    """True if there was no connection over which the request could have been sent."""
    import aiohttp

    kinds = (aiohttp.ClientConnectorError, aiohttp.ClientHttpProxyError, aiohttp.ConnectionTimeoutError, ValueError)
    return isinstance(problem, kinds)


def _pinned(addresses: Sequence[str]) -> AbstractResolver:
    """A resolver with fixed addresses: a second lookup could return an address that was not checked."""
    import socket

    from aiohttp.abc import AbstractResolver, ResolveResult

    class Pinned(AbstractResolver):
        async def resolve(
            self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
        ) -> list[ResolveResult]:
            return [
                ResolveResult(
                    hostname=host,
                    host=address,
                    port=port,
                    family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                    proto=0,
                    flags=socket.AI_NUMERICHOST,
                )
                for address in addresses
            ]

        async def close(self) -> None:
            pass

    return Pinned()


def find_proxy(given: str | None, url: str) -> str | None:
    """The proxy for a URL: the one given, or the environment's; never one for this machine's own servers."""
    if given is None:
        from urllib.request import getproxies, proxy_bypass

        parts = urlsplit(url)
        host = parts.hostname or ""
        given = None if _is_loopback(host) or proxy_bypass(host) else getproxies().get(parts.scheme)
    if not given:
        return None
    if urlsplit(given).scheme not in ("http", "https"):
        raise LocalError(f"A proxy is reached over http or https, not as in {_without_secret(given)!r}")
    return given


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _without_secret(url: str | None) -> str:
    """A proxy's URL without user name and password."""
    if not url:
        return ""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
