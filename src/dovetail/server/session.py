"""One client of a server: its lifecycle, its subscriptions, and the table of what it may ask."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from dovetail.protocol.errors import INVALID_PARAMS, METHOD_NOT_FOUND, MISSING_CAPABILITY, ProtocolError
from dovetail.protocol.lifecycle import ServerLifecycle
from dovetail.protocol.revisions.revision import Revision
from dovetail.protocol.terms import Terms
from dovetail.runtime.call import Call
from dovetail.runtime.connection import Connection, Work
from dovetail.types.base import PageParams, Result
from dovetail.types.messages import DiscoverResult, InitializeParams, InitializeResult, ListenParams
from dovetail.types.prompts import GetPromptParams
from dovetail.types.resources import ReadResourceParams
from dovetail.types.shape import Value
from dovetail.types.tools import CallToolParams
from dovetail.wire import codec
from dovetail.wire.jsonrpc import Id, Notification, Request

from .context import Context
from .subscriptions import Subscriptions

if TYPE_CHECKING:
    from .app import Server
    from .tools import RegisteredTool

Answer: TypeAlias = "bytes | Work"


class ServerSession:
    """The server's side of one connection."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._lifecycle = ServerLifecycle(server.served)
        self.loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[str | None] = self.loop.create_future()
        self.subscriptions = Subscriptions(self._lifecycle)

    def attach(self, connection: Connection) -> None:
        """The connection that this session speaks through."""
        self.subscriptions.attach(connection)

    @property
    def null_id(self) -> bool:
        """Whether an error without a readable id carries `id: null`."""
        return self._lifecycle.null_id

    @property
    def batching(self) -> bool:
        """Whether the agreed revision knows batches."""
        terms = self._lifecycle.terms
        return terms is not None and terms.revision.batching

    def answers_refused(self, id: Id | None) -> bool:
        """A server answers whatever it cannot take (JSON-RPC 2.0, section 5)."""
        return True

    @property
    def waits_for_reader(self) -> bool:
        """A server bounds what it owes to a client that does not read."""
        return True

    def terms_for(self, request: Request) -> Terms:
        """The terms to serve this request under."""
        return self._lifecycle.terms_for(request)

    def serve(self, call: Call) -> Answer:
        """Find who answers, check the params, and hand over."""
        request, revision = call.request, call.terms.revision
        handler = _HANDLERS.get(request.method)
        if handler is None or request.method not in revision.methods:
            return self._serve_extension(call)
        params = revision.accept("client", request.method, request.params)
        return handler(self, call, params)

    def notified(self, notification: Notification) -> None:
        """Take a notification; unknown ones are ignored, as JSON-RPC asks."""
        if notification.method == "notifications/initialized":
            self._lifecycle.initialized()
        elif (taker := self._server.extensions.notifications.get(notification.method)) is not None:
            taker(notification.params)

    def disconnected(self, reason: str | None) -> None:
        """The client is gone."""
        if not self.ended.done():
            self.ended.set_result(reason)

    def _serve_extension(self, call: Call) -> Answer:
        method = call.request.method
        found = self._server.extensions.requests.get(method)
        if found is None:
            known = " on this revision" if method in _HANDLERS else ""
            raise ProtocolError(METHOD_NOT_FOUND, f"Method not found{known}: {method}")
        identifier, handler = found
        if identifier not in (call.terms.capabilities.extensions or {}):
            if call.terms.revision.era == "handshake":
                raise ProtocolError(METHOD_NOT_FOUND, f"{method} needs the extension {identifier}")
            missing: dict[str, Any] = {"requiredCapabilities": {"extensions": {identifier: {}}}}
            raise ProtocolError(MISSING_CAPABILITY, f"{method} needs the extension {identifier}", missing)

        async def work() -> bytes:
            result = await handler(call.request.params, Context(self._server, call))
            if call.terms.revision.result_type:
                result.setdefault("resultType", "complete")
            return codec.encode(result)

        return work

    def _initialize(self, call: Call, params: Value) -> Answer:
        assert isinstance(params, InitializeParams)
        revision = self._lifecycle.initialize(params)
        server = self._server
        result = InitializeResult(revision.name, server.capabilities(), server.info, server.instructions)
        return codec.encode(revision.emit_result("initialize", result))

    def _ping(self, call: Call, params: Value) -> Answer:
        return codec.encode(call.terms.revision.emit_result("ping", Result()))

    def _discover(self, call: Call, params: Value) -> Answer:
        server = self._server
        result = DiscoverResult(list(server.served)[::-1], server.capabilities(), server.instructions)
        result.cache_scope = "public"
        return codec.encode(server.finish(call.terms.revision, "server/discover", result))

    def _list(self, call: Call, params: Value) -> Answer:
        assert isinstance(params, PageParams)
        return self._server.page(call.request.method, call.terms.revision, params.cursor)

    def _call_tool(self, call: Call, params: Value) -> Answer:
        assert isinstance(params, CallToolParams)
        server = self._server
        tool = server.tools.get(params.name)
        if tool is None:
            hint = server.tools.suggestion(params.name)
            raise ProtocolError(INVALID_PARAMS, f"Unknown tool: {params.name}{hint}")
        return functools.partial(self._run_tool, call, tool, params.arguments or {})

    async def _run_tool(self, call: Call, tool: RegisteredTool, arguments: dict[str, Any]) -> bytes:
        server = self._server
        result = await tool.invoke(Context(server, call), call, server.workers, arguments)
        return codec.encode(server.finish(call.terms.revision, "tools/call", result))

    def _read_resource(self, call: Call, params: Value) -> Answer:
        assert isinstance(params, ReadResourceParams)
        server, revision = self._server, call.terms.revision
        found = server.find_resource(params.uri)
        if found is None:
            raise ProtocolError(
                revision.not_found_code, f"Resource not found: {params.uri}", {"uri": params.uri}
            )
        resource, variables = found
        context = Context(server, call)
        reading = functools.partial(resource.read, context, call, server.workers, params.uri, variables)
        return functools.partial(self._finished, revision, "resources/read", reading)

    def _get_prompt(self, call: Call, params: Value) -> Answer:
        assert isinstance(params, GetPromptParams)
        server = self._server
        prompt = server.prompts.get(params.name)
        if prompt is None:
            hint = server.prompts.suggestion(params.name)
            raise ProtocolError(INVALID_PARAMS, f"Unknown prompt: {params.name}{hint}")
        arguments = cast("dict[str, Any]", params.arguments or {})
        getting = functools.partial(prompt.get, Context(server, call), call, server.workers, arguments)
        return functools.partial(self._finished, call.terms.revision, "prompts/get", getting)

    def _listen(self, call: Call, params: Value) -> Answer:
        assert isinstance(params, ListenParams)
        honoured = self._server.honoured(params.notifications)

        async def work() -> bytes:
            result = await self.subscriptions.listen(call, honoured)
            return codec.encode(self._server.finish(call.terms.revision, "subscriptions/listen", result))

        return work

    async def _finished(self, revision: Revision, method: str, work: Callable[[], Any]) -> bytes:
        return codec.encode(self._server.finish(revision, method, await work()))


_Handler: TypeAlias = Callable[[ServerSession, Call, Value], Answer]

_HANDLERS: dict[str, _Handler] = {
    "initialize": ServerSession._initialize,  # pyright: ignore[reportPrivateUsage]
    "ping": ServerSession._ping,  # pyright: ignore[reportPrivateUsage]
    "server/discover": ServerSession._discover,  # pyright: ignore[reportPrivateUsage]
    "tools/list": ServerSession._list,  # pyright: ignore[reportPrivateUsage]
    "tools/call": ServerSession._call_tool,  # pyright: ignore[reportPrivateUsage]
    "resources/list": ServerSession._list,  # pyright: ignore[reportPrivateUsage]
    "resources/templates/list": ServerSession._list,  # pyright: ignore[reportPrivateUsage]
    "resources/read": ServerSession._read_resource,  # pyright: ignore[reportPrivateUsage]
    "prompts/list": ServerSession._list,  # pyright: ignore[reportPrivateUsage]
    "prompts/get": ServerSession._get_prompt,  # pyright: ignore[reportPrivateUsage]
    "subscriptions/listen": ServerSession._listen,  # pyright: ignore[reportPrivateUsage]
}
