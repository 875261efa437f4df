"""One client of a server: its lifecycle, its subscriptions, and the table of what it may ask."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import msgspec

from dovetail.protocol.errors import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MISSING_CAPABILITY,
    ProtocolError,
)
from dovetail.protocol.lifecycle import ServerLifecycle
from dovetail.protocol.terms import Terms
from dovetail.runtime.call import Call
from dovetail.runtime.connection import Connection, Work
from dovetail.server.features.subscriptions import Subscriptions
from dovetail.types.base import PageParams, Result, RetriedParams
from dovetail.types.capabilities import ServerCapabilities
from dovetail.types.client_features import InputRequired
from dovetail.types.messages import (
    CompleteParams,
    DiscoverResult,
    InitializeParams,
    InitializeResult,
    ListenParams,
    SetLevelParams,
)
from dovetail.types.prompts import GetPromptParams
from dovetail.types.resources import ReadResourceParams, SubscribeParams
from dovetail.types.serialization import Value
from dovetail.types.tools import CallToolParams
from dovetail.wire import codec
from dovetail.wire.jsonrpc import Id, Notification, Request

from .context import Context, ask_directly

if TYPE_CHECKING:
    from dovetail.runtime.middleware import Chain
    from dovetail.server.features.logging import Flow
    from dovetail.server.mrtr.suspendable_call import Interview
    from dovetail.server.mrtr.suspended_calls import Given

    from .app import Server

DEFAULT_LOG_LEVEL = "info"
"""What a client of the handshake era hears of before it has said what it wants to (logging, "Setting Log Level")."""

Answer: TypeAlias = "bytes | Work"
Run: TypeAlias = "Callable[[Context], Awaitable[Value]]"


class ServerSession:
    """The server's side of one connection."""

    def __init__(self, server: Server, principal: str | None = None) -> None:
        self._server = server
        self._principal = principal
        self._lifecycle = ServerLifecycle(server.served)
        self.loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[str | None] = self.loop.create_future()
        self.subscriptions = Subscriptions(self._lifecycle)
        self.scopes: frozenset[str] | None = None
        """What the token of the request that is taken next allows; each request may bring another one."""
        self.log_level: str | None = None
        """From which level on this client hears of logs, once it was told that there are any."""

    def attach(self, connection: Connection) -> None:
        """The connection that this session speaks through."""
        self.subscriptions.attach(connection)

    @property
    def middleware(self) -> Chain | None:
        """What wraps the requests of this connection, both ways."""
        return self._server.middleware

    @functools.cached_property
    def log_flow(self) -> Flow:
        """How many log messages this client gets."""
        from dovetail.server.features.logging import Flow

        return Flow()

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
        """The terms to serve this request under, with who is asking."""
        terms = self._lifecycle.terms_for(request)
        if self._principal is None:
            return terms
        return msgspec.structs.replace(terms, principal=self._principal, scopes=self.scopes)

    @property
    def terms(self) -> Terms | None:
        """The terms of the handshake, once there was one."""
        return self._lifecycle.terms

    @property
    def ready(self) -> bool:
        """Whether the client has confirmed the handshake."""
        return self._lifecycle.ready

    def restore(self, terms: Terms, *, ready: bool) -> None:
        """Take up a handshake that was made before, maybe by another process."""
        self._lifecycle.restore(terms, ready=ready)

    def offered(self) -> ServerCapabilities:
        """What the handshake says that the server can do for this client."""
        return self._server.capabilities()

    def serve(self, call: Call) -> Answer:
        """Answer a request, through the middleware if there is any."""
        chain = self._server.middleware
        if chain is None or not chain.wraps(call.request.method):
            return self._serve(call)
        from dovetail.runtime.middleware import pass_in

        # The requests that come right after initialize need its outcome.
        answer = self._serve(call) if call.request.method == "initialize" else None
        assert answer is None or isinstance(answer, bytes)
        return pass_in(chain, "server", call.terms.client, call, self._serve, answer=answer)

    def _serve(self, call: Call) -> Answer:
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
        capabilities = self.offered()
        if capabilities.logging is not None:
            self.log_level = DEFAULT_LOG_LEVEL
        result = InitializeResult(revision.name, capabilities, server.info, server.instructions)
        return codec.encode(revision.emit_result("initialize", result))

    def _ping(self, call: Call, params: Value) -> Answer:
        return codec.encode(call.terms.revision.emit_result("ping", Result()))

    def _discover(self, call: Call, params: Value) -> Answer:
        server = self._server
        result = DiscoverResult(list(server.served)[::-1], server.capabilities(), server.instructions)
        result.ttl_ms, result.cache_scope = server.list_ttl_ms, "public"
        return codec.encode(server.finish(call.terms.revision, "server/discover", result))

    def _list(self, call: Call, params: Value) -> Answer:
        assert isinstance(params, PageParams)
        terms = call.terms
        return self._server.page(call.request.method, terms.revision, params.cursor, terms.principal, terms.scopes)

    def _call_tool(self, call: Call, params: Value) -> Answer:
        assert isinstance(params, CallToolParams)
        server = self._server
        tool = server.tools.get(params.name)
        if tool is None or (server.visible is not None and not server.shows(call.terms.principal, "tool", params.name)):
            hint = server.tools.suggestion(params.name)
            raise ProtocolError(INVALID_PARAMS, f"Unknown tool: {params.name}{hint}")
        if tool.scopes and not tool.allowed(call.terms.scopes):
            raise ProtocolError(INVALID_REQUEST, f"Insufficient scope: {tool.name} needs {' '.join(tool.scopes)}")
        arguments = params.arguments or {}

        async def run(context: Context) -> Value:
            return await tool.invoke(context, call, server.workers, arguments)

        asks = tool.binding.context_name is not None
        return self._work(call, params, run, asks=asks, keep=tool.unlimited)

    def _read_resource(self, call: Call, params: Value) -> Answer:
        assert isinstance(params, ReadResourceParams)
        server, revision = self._server, call.terms.revision
        found = server.find_resource(params.uri)
        if found is None or not server.shows(call.terms.principal, "resource", found[0].key):
            raise ProtocolError(revision.not_found_code, f"Resource not found: {params.uri}", {"uri": params.uri})
        resource, variables = found

        async def run(context: Context) -> Value:
            return await resource.read(context, call, server.workers, params.uri, variables)

        return self._work(call, params, run, asks=resource.binding.context_name is not None)

    def _get_prompt(self, call: Call, params: Value) -> Answer:
        assert isinstance(params, GetPromptParams)
        server = self._server
        prompt = server.prompts.get(params.name)
        if prompt is None or not server.shows(call.terms.principal, "prompt", params.name):
            hint = server.prompts.suggestion(params.name)
            raise ProtocolError(INVALID_PARAMS, f"Unknown prompt: {params.name}{hint}")
        arguments = cast("dict[str, Any]", params.arguments or {})

        async def run(context: Context) -> Value:
            return await prompt.get(context, call, server.workers, arguments)

        return self._work(call, params, run, asks=prompt.binding.context_name is not None)

    def _work(self, call: Call, params: RetriedParams, run: Run, *, asks: bool, keep: bool = True) -> Work:
        """The way to the result: straight, or through an interview where the handler may ask.

        A call that counts against a limit is not kept while the user thinks.
        """
        server, revision, method = self._server, call.terms.revision, call.request.method
        in_rounds = asks and revision.server_requests == "rounds"

        async def work() -> bytes:
            if in_rounds:
                result = await server.desk.serve(call, params, functools.partial(self._begin, call, run), keep=keep)
            else:
                context = Context(server, call)
                if params.input_responses:
                    from dovetail.server.features.url_elicitation import page_answer

                    context.answers = page_answer(revision, params.input_responses)
                result = await run(context)
                if isinstance(result, InputRequired) and revision.server_requests == "direct":
                    result = await ask_directly(result, lambda: Context(server, call), run)
            return codec.encode(server.finish(revision, method, result))

        return work

    def _begin(self, call: Call, run: Run, interview: Interview, given: Given) -> Callable[[], Awaitable[Value]]:
        context = Context(self._server, call)
        context.attach(interview)
        context.answers, context.state = given.answers, given.state

        async def checked() -> Value:
            result = await run(context)
            if isinstance(result, InputRequired):
                context.check(result)
            return result

        return checked

    def _complete(self, call: Call, params: Value) -> Answer:
        assert isinstance(params, CompleteParams)
        server = self._server
        if not server.completes:
            raise ProtocolError(METHOD_NOT_FOUND, "This server completes nothing")
        server.completions.admit(call.terms.principal or id(self))

        async def work() -> bytes:
            from dovetail.server.features.completion import complete

            result = await complete(server, call, params)
            return codec.encode(server.finish(call.terms.revision, "completion/complete", result))

        return work

    def _set_level(self, call: Call, params: Value) -> Answer:
        assert isinstance(params, SetLevelParams)
        if self.log_level is None:
            raise ProtocolError(METHOD_NOT_FOUND, "This server logs nothing")
        self.log_level = params.level
        return codec.encode(call.terms.revision.emit_result("logging/setLevel", Result()))

    def _subscribe(self, call: Call, params: Value) -> Answer:
        assert isinstance(params, SubscribeParams)
        revision = call.terms.revision
        if not self._server.can_watch(params.uri, call.terms.principal):
            raise ProtocolError(revision.not_found_code, f"Resource not found: {params.uri}", {"uri": params.uri})
        self.subscriptions.watch(params.uri)
        return codec.encode(revision.emit_result("resources/subscribe", Result()))

    def _unsubscribe(self, call: Call, params: Value) -> Answer:
        assert isinstance(params, SubscribeParams)
        self.subscriptions.unwatch(params.uri)
        return codec.encode(call.terms.revision.emit_result("resources/unsubscribe", Result()))

    def _listen(self, call: Call, params: Value) -> Answer:
        assert isinstance(params, ListenParams)
        honoured = self._server.honoured(params.notifications, call.terms.principal)

        async def work() -> bytes:
            result = await self.subscriptions.listen(call, honoured)
            return codec.encode(self._server.finish(call.terms.revision, "subscriptions/listen", result))

        return work


def session_of(call: Call) -> ServerSession:
    """The session that a call belongs to."""
    session = call.connection.service
    assert isinstance(session, ServerSession)
    return session


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
    "completion/complete": ServerSession._complete,  # pyright: ignore[reportPrivateUsage]
    "logging/setLevel": ServerSession._set_level,  # pyright: ignore[reportPrivateUsage]
    "resources/subscribe": ServerSession._subscribe,  # pyright: ignore[reportPrivateUsage]
    "resources/unsubscribe": ServerSession._unsubscribe,  # pyright: ignore[reportPrivateUsage]
    "subscriptions/listen": ServerSession._listen,  # pyright: ignore[reportPrivateUsage]
}
