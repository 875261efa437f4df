"""`Client`: a connection to one server, and the requests that it can be sent."""

from __future__ import annotations

import functools
import os
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

from dovetail import __version__
from dovetail.client.targets.resolve import Target, http_settings, resolve_target
from dovetail.protocol.deadline import Timeouts
from dovetail.protocol.envelope import LOG_LEVEL, meta_of, request_meta
from dovetail.protocol.errors import (
    ConnectionLost,
    HttpStatus,
    InvalidAnswer,
    LocalError,
    RemoteError,
    SessionEnded,
    ToolFailed,
)
from dovetail.protocol.extension import Extension, Extensions
from dovetail.protocol.revisions import REVISIONS
from dovetail.protocol.revisions.revision import Revision
from dovetail.runtime.connection import Trace
from dovetail.runtime.pending_requests import OnProgress
from dovetail.types.base import PageResult
from dovetail.types.capabilities import ClientCapabilities, Implementation, ServerCapabilities
from dovetail.types.client_features import InputRequired
from dovetail.types.messages import CompleteResult, Completion, LogLevel
from dovetail.types.prompts import GetPromptResult, ListPromptsResult, Prompt
from dovetail.types.resources import (
    ListResourcesResult,
    ListResourceTemplatesResult,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
)
from dovetail.types.serialization import Value
from dovetail.types.tools import CallToolResult, ListToolsResult, Tool

from .elicitation import Mode, OnElicit
from .logs import LogDelivery, OnLog, initial_log_level, logger
from .mrtr import MAX_ROUNDS, InputRounds, supports_input_required
from .negotiation import SHARED_ERAS, EraCache
from .negotiator import ConnectOptions
from .output_validation import OutputValidator
from .retry_policy import RetryPolicy
from .roots import Roots
from .server_requests import OnSample, RequestHandlers
from .session import ClientSession
from .supervisor import Supervisor
from .url_elicitation import requires_url_elicitation

if TYPE_CHECKING:
    from dovetail.client.targets.http import Credentials
    from dovetail.runtime.middleware import Chain, Middleware
    from dovetail.transports.http.contract import HttpOptions

    from .blocking import BlockingClient
    from .cache import ResultCache
    from .completion import Debounce, Reference
    from .retry_policy import RestartPolicy
    from .subscriptions import Change

MAX_PAGES = 1000
_NOT_OPEN = "This client is not open: use `async with Client(…)`, or await open()"
ROOTS_CHANGED = "notifications/roots/list_changed"

R = TypeVar("R", bound=Value)


class Client:
    """A client of one server, over any transport: `async with Client("python server.py") as c`.

    The server's requests are handled by `on_elicit` (the user), `on_sample` (a model) and `roots`; only capabilities
    that have a handler are declared. A handler may be a plain function, which runs in a thread, or an async one.
    `on_elicit` returns a form's content to accept, "accept" for a page, None to decline, or "cancel". To decline,
    `on_elicit` and `on_sample` may raise `Refused`. Their time counts towards no timeout.

    `middleware` wraps every request in both directions, except those of the negotiation. With `cache`, results that the
    server declares cacheable are kept until they expire or `client.cache.clear()`. With `restart`, a call restarts a
    server that has ended; calls in flight when it ended still fail, since their outcome is unknown.

    For a server behind a URL, `headers` are sent with each request, `auth` is a bearer token or a function that returns
    one, called again when the server refuses it, and `http` has further options, such as proxies and certificates.
    Without `auth`, stored logins are used where the server requires one, and an interactive user may log in; with
    `auth=False` neither happens. `eras` remembers which era a server speaks; by default all clients share one cache.
    """

    def __init__(
        self,
        target: Target,
        *,
        revision: str | None = None,
        timeout: float | None = 30,
        max_timeout: float | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        info: Implementation | None = None,
        extensions: Sequence[Extension] = (),
        experimental: Mapping[str, Any] | None = None,
        on_elicit: OnElicit | None = None,
        on_sample: OnSample | None = None,
        roots: Roots | None = None,
        headers: Mapping[str, str] | None = None,
        auth: Credentials | None = None,
        http: HttpOptions | None = None,
        on_log: OnLog | None = None,
        log_level: LogLevel | None = None,
        elicit_modes: Sequence[Mode] = ("form", "url"),
        sample_tools: bool = False,
        max_rounds: int = MAX_ROUNDS,
        middleware: Sequence[Middleware] = (),
        cache: bool = False,
        restart: bool = False,
        trace: Trace | None = None,
        eras: EraCache | None = None,
    ) -> None:
        """Prepare a client; `open`, or `async with`, connects."""
        self._target = resolve_target(target, env, cwd, http_settings(headers, auth, http))
        self._max_timeout = max_timeout
        self._extensions = Extensions(list(extensions))
        self._capabilities = ClientCapabilities(
            extensions=self._extensions.declared or None, experimental=dict(experimental) if experimental else None
        )
        self._handlers = RequestHandlers(on_elicit, on_sample, roots, elicit_modes, sample_tools=sample_tools)
        self._handlers.declare(self._capabilities)
        self._logs = None if on_log is None else LogDelivery(on_log)
        self._options = ConnectOptions(
            info=info or Implementation("dovetail", __version__),
            capabilities=self._capabilities,
            revision=_find_revision(revision),
            timeout=timeout,
            log_level=initial_log_level(log_level, wanted=on_log is not None),
            trace=trace,
            eras=SHARED_ERAS if eras is None else eras,
        )
        self._max_rounds = max_rounds
        self._supervisor: Supervisor | None = None
        self._meta: dict[str, Any] | None = None
        """The `_meta` of every request in the envelope era; None in the handshake era."""
        self._outputs, self._retry_policy = OutputValidator(), RetryPolicy()
        self._opened = False
        self._restart_policy = _new_restart_policy() if restart else None
        self._debounce: Debounce | None = None
        self.cache = _new_cache() if cache else None
        self.middleware = _new_chain(middleware) if middleware else None

    @staticmethod
    def blocking(target: Target, **options: Any) -> BlockingClient:
        """The same client for code without async: `with Client.blocking("python server.py") as c`."""
        from .blocking import BlockingClient

        return BlockingClient(lambda: Client(target, **options))

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def open(self) -> None:
        """Connect and negotiate the revision."""
        if self._opened:
            raise LocalError("This client is open already")
        self._opened = True
        try:
            await self._connect()
        except BaseException:
            self._opened = False
            raise

    async def close(self) -> None:
        """Disconnect; a server that this client started is stopped."""
        self._opened = False
        await self._disconnect()

    async def restart(self) -> None:
        """Disconnect and connect again; a server that this client started is restarted."""
        if not self._opened:
            raise LocalError(_NOT_OPEN)
        await self._disconnect()
        if not self._opened:
            raise ConnectionLost("the client was closed")
        await self._connect()

    def use(self, middleware: Middleware, *, methods: Iterable[str] | None = None) -> Middleware:
        """Add a middleware inside of those that there are, for all requests or those of some methods."""
        if self.middleware is None:
            self.middleware = _new_chain(())
        self.middleware.add(middleware, methods)
        return middleware

    @property
    def revision(self) -> str:
        """The protocol revision that both sides agreed on."""
        return self._connected().agreement.revision.name

    @property
    def server(self) -> Implementation | None:
        """The server's name and version, as it gives them itself; not verified."""
        return self._connected().agreement.server

    @property
    def capabilities(self) -> ServerCapabilities:
        """The capabilities that the server has declared."""
        return self._connected().agreement.capabilities

    @property
    def instructions(self) -> str | None:
        """The server's instructions for a model."""
        return self._connected().agreement.instructions

    async def tools(self) -> list[Tool]:
        """All tools, from all pages."""
        tools = [tool async for tool in self._pages("tools/list", ListToolsResult, "tools")]
        if (channel := self._connected().http) is not None:
            tools = channel.learn_tools(tools)
        self._outputs.learn(tools)
        self._retry_policy.learn(tools)
        return tools

    async def resources(self) -> list[Resource]:
        """All resources, from all pages."""
        return [item async for item in self._pages("resources/list", ListResourcesResult, "resources")]

    async def resource_templates(self) -> list[ResourceTemplate]:
        """All resource templates, from all pages."""
        pages = self._pages("resources/templates/list", ListResourceTemplatesResult, "resource_templates")
        return [item async for item in pages]

    async def prompts(self) -> list[Prompt]:
        """All prompts, from all pages."""
        return [item async for item in self._pages("prompts/list", ListPromptsResult, "prompts")]

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        /,
        *,
        timeout: float | None = None,
        progress: OnProgress | None = None,
        check: bool = True,
        meta: Mapping[str, Any] | None = None,
        **named: Any,
    ) -> CallToolResult:
        """Call a tool; a result with `isError` raises `ToolFailed` unless `check` is false.

        Arguments are keywords, or one mapping where a name would clash.
        """
        params: dict[str, Any] = {"name": name, "arguments": {**(arguments or {}), **named}}
        result = await self._request_typed("tools/call", params, CallToolResult, timeout, progress, meta)
        if not result.is_error:
            await self._outputs.check(name, result, self.tools)
        elif check:
            raise ToolFailed(name, result)
        return result

    async def read(self, uri: str, *, timeout: float | None = None) -> ReadResourceResult:
        """Read a resource."""
        return await self._request_typed("resources/read", {"uri": uri}, ReadResourceResult, timeout)

    async def prompt(
        self,
        name: str,
        arguments: Mapping[str, str] | None = None,
        /,
        *,
        timeout: float | None = None,
        **named: str,
    ) -> GetPromptResult:
        """Get a prompt, filled in."""
        params = {"name": name, "arguments": {**(arguments or {}), **named}}
        return await self._request_typed("prompts/get", params, GetPromptResult, timeout)

    async def complete(
        self,
        reference: Reference,
        argument: str,
        value: str,
        *,
        context: Mapping[str, str] | None = None,
        debounce: float = 0.05,
        timeout: float | None = None,
    ) -> Completion:
        """Suggestions for an argument of a prompt, by name, or for a variable of a resource template.

        `context` holds the values of other arguments. Of calls for the same argument that follow each other within
        `debounce` seconds only the last is sent, and it cancels one that still waits for its answer; the others raise
        `Overtaken`. With `debounce=0` each is sent and answered.
        """
        from .completion import Debounce, complete_params

        revision = self._connected().agreement.revision
        params = revision.emit(complete_params(reference, argument, value, context))
        if not debounce:
            return (await self._request_typed("completion/complete", params, CompleteResult, timeout)).completion
        if self._debounce is None:
            self._debounce = Debounce()
        key = (str(params["ref"]), argument)
        answer = await self._debounce.run(
            key, debounce, lambda: self._request_typed("completion/complete", params, CompleteResult, timeout)
        )
        return answer.completion

    async def ping(self, *, timeout: float | None = None) -> None:
        """Check that the server answers: with ping, or server/discover on revisions without ping."""
        method = "ping" if "ping" in self._connected().agreement.revision.methods else "server/discover"
        await self.request(method, timeout=timeout)

    async def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        progress: OnProgress | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> Any:
        """Send any request and get its result as JSON values; for methods of extensions."""
        if self._restart_policy is not None:
            await self._restart_if_lost(self._restart_policy)
        body = dict(params) if params else {}
        extra = {**(self._meta or {}), **(meta or {})}
        if extra:
            body["_meta"] = extra
        if self.middleware is None and self.cache is None:
            return await self._send(method, body, timeout, progress)
        from .pipeline import Pipeline

        pipeline = Pipeline(self._connected(), self._meta, self.middleware, self.cache if not meta else None)
        send = functools.partial(self._send, method, timeout=timeout, progress=progress)
        return await pipeline.request(method, body, progress, send)

    def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send any notification; for methods of extensions."""
        self._connected().connection.notify(method, dict(params) if params is not None else None)

    def set_roots(self, roots: Roots) -> None:
        """Replace the roots, and notify the server where the revision has a notification for that."""
        self._handlers.set_roots(roots)
        if self._supervisor is not None and ROOTS_CHANGED in self._supervisor.agreement.revision.methods:
            self.notify(ROOTS_CHANGED)

    async def set_log_level(self, level: LogLevel) -> None:
        """Receive the server's log messages of this level and above."""
        self._options.log_level = initial_log_level(level, wanted=self._logs is not None)
        if self._supervisor is None:
            return
        if self._meta is not None:
            self._meta = {**self._meta, LOG_LEVEL: level}
        await self._send_log_level(level)

    def watch(
        self, *uris: str, tools: bool = False, resources: bool = False, prompts: bool = False
    ) -> AsyncGenerator[Change]:
        """Subscribe to changes of resources, with those below them, or of lists; the same on every revision."""
        from .subscriptions import watch

        supervisor = self._connected()
        lists = {"tools": tools, "resources": resources, "prompts": prompts}
        wanted = [kind for kind in lists if lists[kind]]
        if not (uris or wanted):
            raise LocalError("There is nothing to watch: name resources, or say tools=True or the like")
        return watch(supervisor, self._meta, wanted, list(dict.fromkeys(uris)), self.request)

    async def _connect(self) -> None:
        supervisor = self._supervisor = Supervisor(self._target, self._make_session, self._options)
        try:
            await supervisor.open()
        except BaseException:
            self._supervisor = None
            raise
        options, revision = self._options, supervisor.agreement.revision
        self._meta = None
        if revision.era == "envelope":
            self._meta = request_meta(revision, options.info, options.capabilities, options.log_level)
        self._outputs = OutputValidator()
        supervisor.session.notification_callbacks.add(self._outputs.notified)
        if self.cache is not None:
            supervisor.session.notification_callbacks.add(self.cache.notified)
        if options.log_level is not None:
            try:
                await self._send_log_level(options.log_level)
            except BaseException:
                await self._disconnect()
                raise

    async def _disconnect(self) -> None:
        supervisor, self._supervisor = self._supervisor, None
        if supervisor is None:
            return
        try:
            if self.cache is not None:
                await self.cache.close()
        finally:
            try:
                await supervisor.close()
            finally:
                self._handlers.stop()
                if self._logs is not None:
                    self._logs.close()

    async def _restart_if_lost(self, policy: RestartPolicy) -> None:
        """Restart a server that has ended, unless that was done too often lately."""
        async with policy.lock:
            supervisor = self._supervisor
            if not self._opened or (supervisor is not None and supervisor.connection.gone is None):
                return
            policy.count(None if supervisor is None else supervisor.connection.gone)
            await self.restart()

    def _make_session(self, on_lost: Callable[[], None]) -> ClientSession:
        session = ClientSession(self, self._extensions, on_lost, self._handlers)
        if self._logs is not None:
            session.notification_callbacks.add(self._logs.notified)
        return session

    async def _send_log_level(self, level: str) -> None:
        """Send `logging/setLevel` to a server that logs, on revisions where the level is not part of each request."""
        agreement = self._connected().agreement
        if "logging/setLevel" in agreement.revision.methods and agreement.capabilities.logging is not None:
            try:
                await self._send("logging/setLevel", {"level": level}, None, None, retry=False)
            except (HttpStatus, RemoteError, SessionEnded) as problem:
                logger.warning("The server does not let its log level be set: %s", problem)

    async def _send(
        self,
        method: str,
        body: dict[str, Any],
        timeout: float | None,
        progress: OnProgress | None,
        id: int | None = None,
        *,
        retry: bool = True,
    ) -> Any:
        """Send a request; once more where the retry policy allows it, after the cause of the failure is repaired."""
        supervisor = self._connected()
        pending = supervisor.connection.pending
        if id is None:
            id = pending.next_id()
        params = body
        if progress is not None:
            params = {**body, "_meta": {**(meta_of(body) or {}), "progressToken": id}}
        timeouts = Timeouts(self._options.timeout if timeout is None else timeout, self._max_timeout)
        try:
            result = await pending.request(method, params, timeouts, id=id, on_progress=progress)
        except (SessionEnded, RemoteError) as problem:
            if not retry or supervisor.http is None or not self._retry_policy.allow(problem, method, body):
                raise
            await self._repair(problem)
            return await self._send(method, body, timeout, progress, retry=False)
        revision = supervisor.agreement.revision
        if revision.result_type:
            self._check_type(method, result, revision)
        return result

    async def _repair(self, problem: SessionEnded | RemoteError) -> None:
        """Begin a new session, or learn again which arguments go into headers."""
        if isinstance(problem, SessionEnded):
            level = self._options.log_level
            if await self._connected().renew_session() and level is not None:
                await self._send_log_level(level)
            return
        if self.cache is not None:
            self.cache.notified("notifications/tools/list_changed", {})
        await self.tools()

    async def _request_typed(
        self,
        method: str,
        params: dict[str, Any],
        kind: type[R],
        timeout: float | None = None,
        progress: OnProgress | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> R:
        """Send a request and load its result, after the input rounds or URL elicitations that it requires."""
        try:
            raw = await self.request(method, params, timeout=timeout, progress=progress, meta=meta)
        except RemoteError as problem:
            supervisor = self._connected()
            agreement = supervisor.agreement
            if not requires_url_elicitation(problem, agreement.revision, self._handlers):
                raise
            seconds = self._options.timeout if timeout is None else timeout
            elicitations = supervisor.session.url_elicitations
            await supervisor.unless_lost(elicitations.run(problem, agreement.revision, agreement.server, seconds))
            raw = await self.request(method, params, timeout=timeout, progress=progress, meta=meta)
        supervisor = self._connected()
        revision = supervisor.agreement.revision
        result = _load(revision, method, raw)
        if isinstance(result, InputRequired) and supports_input_required(revision, method):
            rounds = InputRounds(method, self._handlers, revision, supervisor.agreement.server, self._max_rounds)
            while isinstance(result, InputRequired):
                again = {**params, **await supervisor.unless_lost(rounds.answer(result))}
                raw = await self.request(method, again, timeout=timeout, progress=progress, meta=meta)
                result = _load(revision, method, raw)
        if not isinstance(result, kind):
            raise InvalidAnswer(f"{method} was answered with {type(result).__name__}, which this client cannot take")
        return result

    def _check_type(self, method: str, result: Any, revision: Revision) -> None:
        """Refuse a result type that neither side declared (2026-07-28 basic, "ResultType")."""
        kind = cast("dict[str, Any]", result).get("resultType") if isinstance(result, dict) else None
        if kind is None or kind == "complete":
            return
        if not isinstance(kind, str) or not (kind in revision.outcomes or kind in self._extensions.result_types):
            raise InvalidAnswer(f"Invalid result of {method}: resultType {kind!r} is unknown")

    def _max_pages(self) -> int:
        return MAX_PAGES

    async def _pages(self, method: str, kind: type[PageResult], field: str) -> AsyncGenerator[Any]:
        cursor: str | None = None
        seen: set[str] = set()
        for _ in range(self._max_pages()):
            result = await self._request_typed(method, {} if cursor is None else {"cursor": cursor}, kind)
            for item in getattr(result, field):
                yield item
            cursor = result.next_cursor
            if cursor is None:
                return
            if cursor in seen:
                raise InvalidAnswer(f"{method} led in a circle: the cursor {cursor[:80]!r} came twice")
            seen.add(cursor)
        raise InvalidAnswer(f"{method} has more than {self._max_pages()} pages; nothing of it was taken")

    def _connected(self) -> Supervisor:
        if self._supervisor is None:
            if self._opened:
                raise ConnectionLost("the client is reconnecting, or could not reconnect")
            raise LocalError(_NOT_OPEN)
        return self._supervisor


def _new_chain(middleware: Sequence[Middleware]) -> Chain:
    from dovetail.runtime.middleware import Chain

    return Chain(middleware)


def _new_restart_policy() -> RestartPolicy:
    from .retry_policy import RestartPolicy

    return RestartPolicy()


def _new_cache() -> ResultCache:
    from .cache import ResultCache

    return ResultCache()


def _find_revision(name: str | None) -> Revision | None:
    if name is None:
        return None
    revision = REVISIONS.get(name)
    if revision is None:
        raise LocalError(f"There is no protocol revision {name!r}; there are {', '.join(REVISIONS)}")
    return revision


def _load(revision: Revision, method: str, raw: Any) -> Value:
    try:
        return revision.load_result(method, raw)
    except RemoteError as problem:
        raise InvalidAnswer(problem.message) from None
