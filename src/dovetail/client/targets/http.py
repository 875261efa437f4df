"""Servers behind a URL."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Literal, TypeAlias
from urllib.parse import urlsplit

from dovetail import __version__
from dovetail.client.auth.auto_login import AutoLogin
from dovetail.client.auth.timeout_pause import PausableTimeouts, PausingAuth
from dovetail.protocol.errors import LocalError
from dovetail.transports.base import Channel
from dovetail.transports.http.contract import Auth, HttpClient, HttpOptions
from dovetail.transports.http.requester import MAX_REFUSALS, HttpRequester, TokenAuth, check_user_headers

if TYPE_CHECKING:
    from dovetail.transports.legacy_sse import LegacySseChannel
    from dovetail.transports.websocket import WebSocketChannel

Credentials: TypeAlias = "str | Callable[[], str | Awaitable[str]] | Auth | Literal[False]"
"""A bearer token, a function that gives one, something that makes headers, or False: none, whatever a server wants."""


class HttpSettings:
    """What every request to a server behind a URL is sent with."""

    def __init__(
        self, headers: Mapping[str, str] | None, auth: Credentials | None, options: HttpOptions | None
    ) -> None:
        self.headers = {"user-agent": f"dovetail/{__version__}", **check_user_headers(headers or {})}
        self.options = options or HttpOptions()
        given = "authorization" in self.headers
        if given and not (auth is None or auth is False):
            raise LocalError("Credentials go into auth, or into headers as Authorization, not into both")
        if auth is None and not given:
            auth = AutoLogin(self.options)
        elif isinstance(auth, str) or callable(auth):
            auth = TokenAuth(auth)
        self.auth = None if auth is None or auth is False else PausingAuth(auth)


class HttpTarget:
    """A server that speaks HTTP: Streamable HTTP, or HTTP+SSE as long ago."""

    restartable = False

    def __init__(self, url: str, reach: HttpSettings) -> None:
        check_url(url)
        self._url = url.partition("#")[0]
        self._reach = reach
        self._client: HttpClient | None = None
        self.key = ("url", self._url)

    async def connect(self) -> Channel:
        """A channel over Streamable HTTP; what the server speaks shows with the first request."""
        from dovetail.transports.http.client.channel import HttpChannel

        return HttpChannel(self._courier())

    async def connect_sse(self) -> LegacySseChannel:
        """A channel over HTTP+SSE, connected."""
        from dovetail.transports.legacy_sse import LegacySseChannel

        channel = LegacySseChannel(self._courier())
        await channel.connect()
        return channel

    def attend(self, clocks: PausableTimeouts) -> None:
        """Have the clocks of requests stand still while a user logs in."""
        if self._reach.auth is not None:
            self._reach.auth.clocks = clocks

    async def ended(self) -> None:
        """Close the connections of a channel that was closed."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    def _courier(self) -> HttpRequester:
        options = self._reach.options
        client = options.client
        if client is None:
            client = self._client
        if client is None:
            from dovetail.transports.http.aiohttp_client import AiohttpClient

            client = self._client = AiohttpClient(options, self._url)
        return HttpRequester(client, self._url, self._reach.headers, self._reach.auth)


class WebSocketTarget:
    """A server that speaks over a WebSocket."""

    restartable = False

    def __init__(self, url: str, reach: HttpSettings) -> None:
        check_url(url)
        self._url = url.partition("#")[0]
        self._web = "http" + self._url[2:]
        """What the server is to those who give out tokens, and to a proxy."""
        self._reach = reach
        self.key = ("url", self._url)

    async def connect(self) -> Channel:
        """A channel over a new WebSocket; with credentials that are refused, others are asked for, a few times."""
        from dovetail.transports.websocket import UpgradeRefused

        auth, refusals = self._reach.auth, 0
        if auth is None:
            return await self._open({})
        while True:
            granted = await auth.headers("GET", self._web)
            try:
                channel = await self._open(granted)
            except UpgradeRefused as refusal:
                refusals += 1
                if refusal.status not in (401, 403) or refusals > MAX_REFUSALS:
                    raise
                if not await auth.refused(self._web, granted, refusal.status, refusal.headers):
                    raise
            else:
                auth.accepted(self._web, channel.headers)
                return channel

    async def _open(self, granted: Mapping[str, str]) -> WebSocketChannel:
        from dovetail.transports.http.aiohttp_client import find_proxy
        from dovetail.transports.http.tls import tls_context
        from dovetail.transports.websocket import connect_websocket

        reach, options = self._reach, self._reach.options
        secure = self._url.lower().startswith("wss:")
        return await connect_websocket(
            self._url,
            headers={**reach.headers, **granted},
            ssl=tls_context(options) if secure else None,
            proxy=find_proxy(options.proxy, self._web),
            open_timeout=options.connect_timeout,
        )

    async def ended(self) -> None:
        """A WebSocket has ended when its channel is closed."""


def check_url(url: str) -> None:
    """Refuse what is no URL of a server."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as problem:
        raise LocalError(f"{url!r} is no URL: {problem}") from None
    if not host or any(char <= " " or char == "\x7f" for char in url):
        raise LocalError(f"{url!r} is no URL of a server")
    if parts.username is not None:
        raise LocalError("Credentials do not belong into a URL: see auth and headers")
