"""An HTTP request that has passed the request guard, with the response to be written."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any

from dovetail.protocol.admission import ASSUMED
from dovetail.protocol.client_address import FORWARDED_FOR, TrustedProxies, client_key
from dovetail.protocol.headers import VERSION_KEY
from dovetail.protocol.request_guard import Headers, Refusal
from dovetail.protocol.revisions import REVISIONS
from dovetail.transports.http.server.asgi import Receive, Scope, until_gone
from dovetail.transports.http.server.response import HttpResponse
from dovetail.wire import codec
from dovetail.wire.jsonrpc import Id, Invalid, Request

if TYPE_CHECKING:
    from dovetail.server.auth.authenticator import AuthenticatedCaller
    from dovetail.wire.jsonrpc import Message

_LOCAL = TrustedProxies.build()


class HttpRequest:
    """One HTTP request: its headers, its caller, and the response."""

    __slots__ = (
        *("_proxies", "caller", "headers", "message", "method", "principal", "receive", "response", "scope", "task"),
    )

    def __init__(
        self, scope: Scope, headers: Headers, receive: Receive, response: HttpResponse, proxies: TrustedProxies = _LOCAL
    ) -> None:
        self.scope = scope
        self._proxies = proxies
        self.method: str = scope["method"]
        self.headers = headers
        self.receive = receive
        self.response = response
        self.caller: AuthenticatedCaller | None = None
        """The authenticated caller, where there is authorization."""
        self.principal: str | None = None
        self.task: asyncio.Task[Any] | None = None
        """The task that serves it, once its body is read."""
        self.message: Message | list[Message] | None = None
        """The decoded body."""

    @property
    def message_id(self) -> Id | None:
        """The id of the request in the body, if there is one and it could be read."""
        message = self.message
        return message.id if isinstance(message, Request | Invalid) else None

    @property
    def query(self) -> bytes:
        """The query string."""
        return self.scope.get("query_string", b"")

    @property
    def root_path(self) -> str:
        """The path that the application is mounted at."""
        return self.scope.get("root_path", "")

    @property
    def client_key(self) -> Hashable:
        """The key that limits count the client by."""
        if self.principal is not None:
            return self.principal
        return client_key(None, client_address(self.scope, self.headers, self._proxies))

    async def refuse(self, refusal: Refusal, id: Id | None = None) -> None:
        """Answer with a refusal; how an unknown id is written depends on the revision that the header names."""
        for name, value in refusal.headers:
            self.response.add_header(name, value)
        named = REVISIONS.get(self.headers.get(VERSION_KEY, b"").decode("latin-1"), ASSUMED)
        body = codec.failure(id, refusal.code, refusal.message, refusal.data, null_id=named.null_id)
        await self.response.message(refusal.status, body)

    def watch(self, on_gone: Callable[[], None]) -> asyncio.Task[None]:
        """Call back when the client closes the connection; cancel the task to stop watching."""
        return asyncio.get_running_loop().create_task(self._watch(on_gone))

    async def _watch(self, on_gone: Callable[[], None]) -> None:
        await until_gone(self.receive)
        self.response.gone = True
        on_gone()


def client_address(scope: Scope, headers: Headers, proxies: TrustedProxies) -> str:
    """The address of the client of a request or WebSocket; empty for a Unix socket."""
    client = scope.get("client")
    return proxies.client_address(client[0] if client else "", headers.get(FORWARDED_FOR))
