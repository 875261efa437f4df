"""An HTTP request that has passed the request guard, with the response to be written."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dovetail.protocol.admission import ASSUMED
from dovetail.protocol.headers import VERSION_KEY
from dovetail.protocol.request_guard import Headers, Refusal
from dovetail.protocol.revisions import REVISIONS
from dovetail.transports.http.server.asgi import Receive, Scope, until_gone
from dovetail.transports.http.server.response import HttpResponse
from dovetail.wire import codec
from dovetail.wire.jsonrpc import Id

if TYPE_CHECKING:
    from dovetail.server.auth.authenticator import AuthenticatedCaller
    from dovetail.wire.jsonrpc import Message

_LOCAL = frozenset({"", "127.0.0.1", "::1"})


class HttpRequest:
    """One HTTP request: its headers, its caller, and the response."""

    __slots__ = ("caller", "headers", "message", "method", "principal", "receive", "response", "scope", "task")

    def __init__(self, scope: Scope, headers: Headers, receive: Receive, response: HttpResponse) -> None:
        self.scope = scope
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
    def query(self) -> bytes:
        """The query string."""
        return self.scope.get("query_string", b"")

    @property
    def root_path(self) -> str:
        """The path that the application is mounted at."""
        return self.scope.get("root_path", "")

    @property
    def address(self) -> str:
        """The address of the client; a proxy on this machine is trusted to name it."""
        client = self.scope.get("client")
        host = client[0] if client else ""
        forwarded = self.headers.get(b"x-forwarded-for")
        if forwarded is None or host not in _LOCAL:
            return host
        return forwarded.rpartition(b",")[2].strip().decode("latin-1") or host

    async def refuse(self, refusal: Refusal, id: Id | None = None) -> None:
        """Answer with a refusal; how an unknown id is written depends on the revision that the header names."""
        for name, value in refusal.headers:
            self.response.add_header(name, value)
        named = REVISIONS.get(self.headers.get(VERSION_KEY, b"").decode("latin-1"), ASSUMED)
        body = codec.failure(id, refusal.code, refusal.message, refusal.data, null_id=named.null_id)
        await self.response.json(refusal.status, body)

    def watch(self, on_gone: Callable[[], None]) -> asyncio.Task[None]:
        """Call back when the client closes the connection; cancel the task to stop watching."""
        return asyncio.get_running_loop().create_task(self._watch(on_gone))

    async def _watch(self, on_gone: Callable[[], None]) -> None:
        await until_gone(self.receive)
        self.response.gone = True
        on_gone()
