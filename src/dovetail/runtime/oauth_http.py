"""OAuth over HTTP: sends the requests of authorization flows, to allowed addresses only (docs/adr/0017)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Sequence
from ipaddress import ip_address
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import SplitResult, urlsplit

from dovetail.auth import url_guard
from dovetail.auth.errors import AuthorizationFailed, printable
from dovetail.auth.http import MAX_BODY, Flow, OAuthRequest, OAuthResponse
from dovetail.protocol.errors import ConnectionLost, InvalidAnswer
from dovetail.transports.http.contract import HttpClient, HttpOptions
from dovetail.transports.http.requester import read_all

if TYPE_CHECKING:
    from dovetail.transports.http.aiohttp_client import AiohttpClient

MAX_REDIRECTS = 3
SECONDS = 20.0
"""Seconds that one request may take, with its redirects."""

_REDIRECTS = (301, 302, 303, 307, 308)

T = TypeVar("T")


class OAuthHttp:
    """Runs flows for the server at one URL, which may name addresses that it can reach itself.

    Names are resolved once, and only an address that was looked at is connected to. Where a proxy or a client of the
    user's own connects, that is theirs to do: then URLs and addresses in them are checked, and names go unresolved.
    """

    def __init__(self, home: str, options: HttpOptions, seconds: float = SECONDS, *, keep: bool = False) -> None:
        """With `keep`, connections are kept for further requests until `close`, or until one of them fails."""
        self._home = home
        self._options = options
        self._seconds = seconds
        self._kept: dict[tuple[str, str, int], AiohttpClient] | None = {} if keep else None
        self._making = asyncio.Lock()

    async def close(self) -> None:
        """Close the connections that are kept."""
        if self._kept:
            clients = list(self._kept.values())
            self._kept.clear()
            for client in clients:
                await client.close()

    async def run(self, flow: Flow[T]) -> T:
        """Run a flow to its end."""
        try:
            request = next(flow)
            while True:
                try:
                    response = await self.send(request)
                except Exception as problem:
                    request = flow.throw(problem)
                else:
                    request = flow.send(response)
        except StopIteration as end:
            return end.value

    async def send(self, request: OAuthRequest) -> OAuthResponse:
        """The response; a GET follows redirects within its origin."""
        url = request.url
        try:
            async with asyncio.timeout(self._seconds):
                for _ in range(MAX_REDIRECTS + 1):
                    response = await self._once(request, url)
                    location = response.headers.get("location")
                    if request.method != "GET" or response.status not in _REDIRECTS or location is None:
                        return response
                    url = url_guard.redirect_target(url, location, printable(request.url))
        except TimeoutError:
            raise AuthorizationFailed(f"{printable(url)} gave no answer within {self._seconds:g} s") from None
        except (ConnectionLost, InvalidAnswer) as problem:
            await self.close()  # the address of the server may have changed
            raise AuthorizationFailed(f"There is no answer from {printable(url)}: {problem}") from problem
        raise AuthorizationFailed(f"{printable(request.url)} redirects too often")

    async def _once(self, request: OAuthRequest, url: str) -> OAuthResponse:
        parts = url_guard.check_url(url, "An address of an authorization server", source=self._home)
        async with self._client(url, parts) as client:
            answer = await client.request(request.method, url, request.headers, request.body or None)
            try:
                body = await read_all(answer, MAX_BODY)
            finally:
                answer.close()
            return OAuthResponse(answer.status, {name.lower(): value for name, value in answer.headers.items()}, body)

    @contextlib.asynccontextmanager
    async def _client(self, url: str, parts: SplitResult) -> AsyncGenerator[HttpClient]:
        own = self._options.client
        if own is not None:
            _screen_literal(parts)
            yield own
            return
        if (kept := self._kept) is not None:
            async with self._making:
                origin = url_guard.origin(parts)
                if (client := kept.get(origin)) is None:
                    client = kept[origin] = await self._new_client(url, parts)
            yield client
            return
        client = await self._new_client(url, parts)
        try:
            yield client
        finally:
            await client.close()

    async def _new_client(self, url: str, parts: SplitResult) -> AiohttpClient:
        from dovetail.transports.http.aiohttp_client import AiohttpClient, find_proxy

        addresses: Sequence[str] | None = None
        if find_proxy(self._options.proxy, url) is not None:
            _screen_literal(parts)
        else:
            home = await _addresses(urlsplit(self._home))
            addresses = url_guard.allowed_addresses(parts, await _addresses(parts), home)
        return AiohttpClient(self._options, url, addresses)


def _screen_literal(parts: SplitResult) -> None:
    """Check a host that is an IP address; loopback is allowed here, since `check_url` has decided on it."""
    host = parts.hostname or ""
    with contextlib.suppress(ValueError):
        url_guard.allowed_addresses(parts, [str(ip_address(host))], [host] if url_guard.is_loopback(host) else [])


async def _addresses(parts: SplitResult) -> list[str]:
    """All addresses of a host; empty if it cannot be resolved."""
    import socket

    loop = asyncio.get_running_loop()
    try:
        addresses = await loop.getaddrinfo(parts.hostname, parts.port or 443, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    return list(dict.fromkeys(str(entry[4][0]) for entry in addresses))
