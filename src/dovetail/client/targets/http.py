"""Servers behind a URL: over HTTP or a WebSocket."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Literal, TypeAlias
from urllib.parse import urlsplit

from dovetail import __version__
from dovetail.client.auth.auto_login import AutoLogin
from dovetail.protocol.errors import LocalError
from dovetail.transports.base import MAX_RECEIVED, Channel
from dovetail.transports.http.contract import Auth, HttpClient, HttpOptions
from dovetail.transports.http.requester import MAX_REFUSALS, HttpRequester, TokenAuth, check_user_headers

from .contract import PausableTimeouts, ServerTarget

if TYPE_CHECKING:
    from dovetail.transports.legacy_sse import LegacySseChannel
    from dovetail.transports.websocket import WebSocketChannel

Credentials: TypeAlias = "str | Callable[[], str | Awaitable[str]] | Auth | Literal[False]"
"""A bearer token, a function that returns one, an `Auth`, or False: no credentials, whatever the server requires."""


class PausingAuth:
    """Credentials that pause request timeouts while others are obtained: a user may have to log in."""

    def __init__(self, auth: Auth) -> None:
        self._auth = auth
        self.timeouts: PausableTimeouts | None = None
        # Called for each request, so without a function in between.
        self.headers = auth.headers
        self.accepted = auth.accepted

    async def refused(self, url: str, sent: Mapping[str, str], status: int, headers: Mapping[str, str]) -> bool:
        """Obtain other credentials, with the timeouts paused."""
        timeouts = self.timeouts
        if timeouts is None:
            return await self._auth.refused(url, sent, status, headers)
        timeouts.pause()
        try:
            return await self._auth.refused(url, sent, status, headers)
        finally:
            timeouts.resume()


class HttpSettings:
    """Headers, credentials and options of every request to a server behind a URL."""

    def __init__(
        self, headers: Mapping[str, str] | None, auth: Credentials | None, options: HttpOptions | None
    ) -> None:
        self._given = (headers or {}, auth, options)
        self.headers = {"user-agent": f"dovetail/{__version__}", **check_user_headers(headers or {})}
        self.options = options or HttpOptions()
        has_authorization = "authorization" in self.headers
        if has_authorization and not (auth is None or auth is False):
            raise LocalError("Credentials go into auth, or into headers as Authorization, not into both")
        if auth is None and not has_authorization:
            auth = AutoLogin(self.options)
        elif isinstance(auth, str) or callable(auth):
            auth = TokenAuth(auth)
        self.auth = None if auth is None or auth is False else PausingAuth(auth)

    def with_defaults(self, headers: Mapping[str, str]) -> HttpSettings:
        """The same settings, with headers of a configuration where the caller gave no other value."""
        own, auth, options = self._given
        named = {name.lower() for name in own} | ({"authorization"} if auth is not None else set[str]())
        more = {name: value for name, value in headers.items() if name.lower() not in named}
        return HttpSettings({**more, **own}, auth, options)


class HttpTarget(ServerTarget):
    """A server that speaks HTTP: Streamable HTTP, or HTTP+SSE (2024-11-05)."""

    legacy_sse = True

    def __init__(self, url: str, settings: HttpSettings) -> None:
        check_url(url)
        self._url = url.partition("#")[0]
        self.label = _label(self._url)
        self._settings = settings
        self._client: HttpClient | None = None
        self.key = ("url", self._url)
        self.url = self._url

    async def connect(self, max_message_bytes: int = MAX_RECEIVED) -> Channel:
        """A channel over Streamable HTTP; the first request connects."""
        from dovetail.transports.http.client.channel import HttpChannel

        return HttpChannel(self._requester(), max_message_bytes)

    async def connect_legacy_sse(self, max_message_bytes: int = MAX_RECEIVED) -> LegacySseChannel:
        """A channel over HTTP+SSE, connected."""
        from dovetail.transports.legacy_sse import LegacySseChannel

        channel = LegacySseChannel(self._requester(), max_message_bytes)
        await channel.connect()
        return channel

    def use_timeouts(self, timeouts: PausableTimeouts) -> None:
        """Pause these timeouts while a user logs in."""
        if self._settings.auth is not None:
            self._settings.auth.timeouts = timeouts

    async def release(self) -> None:
        """Close the HTTP connections of a channel that is closed."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    def _requester(self) -> HttpRequester:
        settings = self._settings
        client = settings.options.client
        if client is None:
            client = self._client
        if client is None:
            from dovetail.transports.http.aiohttp_client import AiohttpClient

            client = self._client = AiohttpClient(settings.options, self._url)
        return HttpRequester(client, self._url, settings.headers, settings.auth)


class WebSocketTarget(ServerTarget):
    """A server that speaks over a WebSocket."""

    def __init__(self, url: str, settings: HttpSettings) -> None:
        check_url(url)
        self._url = url.partition("#")[0]
        self.label = _label(self._url)
        self._http_url = "http" + self._url[2:]
        """The URL of the server for authorization servers and proxies, which know no ws and wss."""
        self.url = self._http_url
        self._settings = settings
        self.key = ("url", self._url)

    async def connect(self, max_message_bytes: int = MAX_RECEIVED) -> Channel:
        """A channel over a new WebSocket; credentials that the server refuses are replaced, a few times."""
        from dovetail.transports.websocket import UpgradeRefused

        auth, refusals = self._settings.auth, 0
        if auth is None:
            return await self._open({}, max_message_bytes)
        while True:
            granted = await auth.headers("GET", self._http_url)
            try:
                channel = await self._open(granted, max_message_bytes)
            except UpgradeRefused as refusal:
                refusals += 1
                if refusal.status not in (401, 403) or refusals > MAX_REFUSALS:
                    raise
                if not await auth.refused(self._http_url, granted, refusal.status, refusal.headers):
                    raise
            else:
                auth.accepted(self._http_url, channel.headers)
                return channel

    async def _open(self, granted: Mapping[str, str], max_message_bytes: int) -> WebSocketChannel:
        from dovetail.transports.http.aiohttp_client import find_proxy
        from dovetail.transports.http.tls import tls_context
        from dovetail.transports.websocket import connect_websocket

        settings, options = self._settings, self._settings.options
        secure = self._url.lower().startswith("wss:")
        return await connect_websocket(
            self._url,
            headers={**settings.headers, **granted},
            ssl=tls_context(options) if secure else None,
            proxy=find_proxy(options.proxy, self._http_url),
            max_message=max_message_bytes,
            open_timeout=options.connect_timeout,
        )


def _label(url: str) -> str:
    """The name of a server in log messages: its URL without the query, which may hold a token."""
    return f"The server at {url.partition('?')[0]}"


def check_url(url: str) -> None:
    """Raise `LocalError` for what is no URL of a server."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as problem:
        raise LocalError(f"{url!r} is no URL: {problem}") from None
    if not host or any(char <= " " or char == "\x7f" for char in url):
        raise LocalError(f"{url!r} is no URL of a server")
    if parts.username is not None:
        raise LocalError("Credentials do not belong into a URL: see auth and headers")
