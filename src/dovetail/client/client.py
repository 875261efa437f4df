"""`Client`: calling one server."""

from __future__ import annotations

import functools
import os
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

from dovetail import __version__
from dovetail.client.targets.resolve import Target, http_settings, resolve_target
from dovetail.protocol.deadline import Timeouts
from dovetail.protocol.envelope import LOG_LEVEL, request_meta
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
from .http_headers import learn_header_arguments
from .logs import LogDelivery, OnLog, initial_log_level, logger
from .mrtr import MAX_ROUNDS, InputRounds, supports_input_required
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
    """One server, reached over whatever it is: `async with Client("python server.py") as c`.

    What the server asks goes to `on_elicit` (a person), `on_sample` (a model) and `roots`, and it is told
    of those that are given and of no others. Each may be a plain function, which runs in a thread, or
    an async one. `on_elicit` returns a form's content to accept, "accept" for a page, None to decline, or
    "cancel". To say no, `on_elicit` and `on_sample` may raise `Refused`. Their time counts towards no timeout.

    `middleware` wraps every request, both ways, except first contact. With `cache`, results that the server
    lets clients keep are kept until `client.cache.clear()`. With `restart`, a call that finds the server gone
    starts it anew; calls under way when it went still fail: nobody knows what became of them.

    For a server behind a URL `headers` go with every request, `auth` is a bearer token or a function that gives
    one, asked again when the server refuses it, and `http` says more, as of proxies and certificates. Without `auth`
    the user's logins are used where a server wants one, and a user who is there may log in; `auth=False` does neither.
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
    ) -> None:
        """Connect to nothing yet; `open`, or `async with`, does."""
        self._target = resolve_target(target, env, cwd, http_settings(headers, auth, http))
        self._revision = _find_revision(revision)
        self._timeout = timeout
        self._max_timeout = max_timeout
        self._info = info or Implementation("dovetail", __version__)
        self._extensions = Extensions(list(extensions))
        self._capabilities = ClientCapabilities(
            extensions=self._extensions.declared or None, experimental=dict(experimental) if experimental else None
        )
        self._handlers = RequestHandlers(on_elicit, on_sample, roots, elicit_modes, sample_tools=sample_tools)
        self._handlers.declare(self._capabilities)
        self._logs = None if on_log is None else LogDelivery(on_log)
        self._log_level = initial_log_level(log_level, wanted=on_log is not None)
        self._max_rounds = max_rounds
        self._trace = trace
        self._supervisor: Supervisor | None = None
        self._meta: dict[str, Any] | None = None
        self._outputs, self._retry_policy = OutputValidator(), RetryPolicy()
        self._opened = False
        self._restarts = _new_restarts() if restart else None
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
        """Connect and agree on a revision."""
        if self._opened:
            raise LocalError("This client is open already")
        self._opened = True
        try:
            await self._connect()
        except BaseException:
            self._opened = False
            raise

    async def close(self) -> None:
        """Disconnect; a server that this client started is ended."""
        self._opened = False
        await self._disconnect()

    async def restart(self) -> None:
        """Disconnect and connect anew; a server that this client started is started anew."""
        if not self._opened:
            raise LocalError(_NOT_OPEN)
        await self._disconnect()
        if not self._opened:
            raise ConnectionLost("the client was closed")
        await self._connect()

    def use(self, middleware: Middleware, *, methods: Iterable[str] | None = None) -> Middleware:
        """Wrap requests, inside of what wraps them already: all of them, or those of some methods."""
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
        """Who the server says it is; not verified."""
        return self._connected().agreement.server

    @property
    def capabilities(self) -> ServerCapabilities:
        """What the server can do."""
        return self._connected().agreement.capabilities

    @property
    def instructions(self) -> str | None:
        """How the server wants to be used, in words for a model."""
        return self._connected().agreement.instructions

    async def tools(self) -> list[Tool]:
        """Every tool, over all pages."""
        tools = [tool async for tool in self._pages("tools/list", ListToolsResult, "tools")]
        supervisor = self._connected()
        if supervisor.web is not None:
            tools = learn_header_arguments(tools, supervisor.web, supervisor.agreement.revision)
        self._outputs.learn(tools)
        self._retry_policy.learn(tools)
        return tools

    async def resources(self) -> list[Resource]:
        """Every resource, over all pages."""
        return [item async for item in self._pages("resources/list", ListResourcesResult, "resources")]

    async def resource_templates(self) -> list[ResourceTemplate]:
        """Every resource template, over all pages."""
        pages = self._pages("resources/templates/list", ListResourceTemplatesResult, "resource_templates")
        return [item async for item in pages]

    async def prompts(self) -> list[Prompt]:
        """Every prompt, over all pages."""
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
        """Call a tool; a result that says `isError` raises `ToolFailed` unless `check` is false.

        Arguments go as keywords, or as one mapping where a name would clash.
        """
        params: dict[str, Any] = {"name": name, "arguments": {**(arguments or {}), **named}}
        result = await self._ask("tools/call", params, CallToolResult, timeout, progress, meta)
        if not result.is_error:
            await self._outputs.check(name, result, self)
        elif check:
            raise ToolFailed(name, result)
        return result

    async def read(self, uri: str, *, timeout: float | None = None) -> ReadResourceResult:
        """Read a resource."""
        return await self._ask("resources/read", {"uri": uri}, ReadResourceResult, timeout)

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
        return await self._ask("prompts/get", params, GetPromptResult, timeout)

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

        `context` holds the arguments that are settled already. Of calls for the same argument that follow each
        other within `debounce` seconds only the last is sent, and one that is sent takes the place of one that
        still waits for its answer; the others raise `Overtaken`. With `debounce=0` each is sent and answered.
        """
        from .completion import Debounce, complete_params

        params = self._agreed().emit(complete_params(reference, argument, value, context))
        if not debounce:
            return (await self._ask("completion/complete", params, CompleteResult, timeout)).completion
        if self._debounce is None:
            self._debounce = Debounce()
        key = (str(params["ref"]), argument)
        answer = await self._debounce.run(
            key, debounce, lambda: self._ask("completion/complete", params, CompleteResult, timeout)
        )
        return answer.completion

    async def ping(self, *, timeout: float | None = None) -> None:
        """See whether the server answers: ping, or discovery where there is no ping any more."""
        method = "ping" if "ping" in self._agreed().methods else "server/discover"
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
        """Send any request and get the bare result; for methods of extensions."""
        if self._restarts is not None:
            await self._revive(self._restarts)
        body = dict(params) if params else {}
        extra = {**(self._meta or {}), **(meta or {})}
        if extra:
            body["_meta"] = extra
        if self.middleware is None and self.cache is None:
            return await self._send(method, body, timeout, progress)
        from .pipeline import Pipeline

        detour = Pipeline(self._connected(), self._meta, self.middleware, self.cache if not meta else None)
        send = functools.partial(self._send, method, timeout=timeout, progress=progress)
        return await detour.request(method, body, progress, send)

    def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send any notification; for methods of extensions."""
        self._connected().connection.notify(method, dict(params) if params is not None else None)

    def set_roots(self, roots: Roots) -> None:
        """Have other roots; a server that can be told of it is."""
        self._handlers.set_roots(roots)
        if self._supervisor is not None and ROOTS_CHANGED in self._agreed().methods:
            self.notify(ROOTS_CHANGED)

    async def set_log_level(self, level: LogLevel) -> None:
        """Hear of what the server logs from this level on."""
        self._log_level = initial_log_level(level, wanted=self._logs is not None)
        if self._supervisor is None:
            return
        if self._meta is not None:
            self._meta = {**self._meta, LOG_LEVEL: level}
        await self._ask_for_logs(level)

    def watch(
        self, *uris: str, tools: bool = False, resources: bool = False, prompts: bool = False
    ) -> AsyncGenerator[Change]:
        """Wait for resources, and those below them, or for lists to change; the same on every revision."""
        from .subscriptions import watch

        supervisor = self._connected()
        kinds = {"tools": tools, "resources": resources, "prompts": prompts}
        wanted = [kind for kind in kinds if kinds[kind]]
        if not (uris or wanted):
            raise LocalError("There is nothing to watch: name resources, or say tools=True or the like")
        return watch(supervisor, self._meta, wanted, list(dict.fromkeys(uris)), self.request)

    async def _connect(self) -> None:
        self._supervisor = Supervisor(
            self._target,
            self._make_session,
            self._info,
            self._capabilities,
            self._revision,
            self._timeout,
            self._trace,
            self._log_level,
        )
        try:
            await self._supervisor.open()
        except BaseException:
            self._supervisor = None
            raise
        agreed = self._supervisor.agreement.revision
        enveloped = agreed.era == "envelope"
        self._meta = request_meta(agreed, self._info, self._capabilities, self._log_level) if enveloped else None
        self._outputs = OutputValidator()
        self._supervisor.session.listeners.add(self._outputs.notified)
        if self.cache is not None:
            self._supervisor.session.listeners.add(self.cache.notified)
        if self._log_level is not None:
            try:
                await self._ask_for_logs(self._log_level)
            except BaseException:
                await self._disconnect()
                raise

    async def _disconnect(self) -> None:
        supervisor, self._supervisor = self._supervisor, None
        if supervisor is not None:
            try:
                if self.cache is not None:
                    await self.cache.close()
            finally:
                await self._drop(supervisor)

    async def _drop(self, supervisor: Supervisor) -> None:
        try:
            await supervisor.close()
        finally:
            self._handlers.stop()
            if self._logs is not None:
                self._logs.close()

    async def _revive(self, restarts: RestartPolicy) -> None:
        """Start a server that is gone anew, unless that was done too often lately."""
        async with restarts.turn:
            dead = self._supervisor
            if not self._opened or (dead is not None and dead.connection.gone is None):
                return
            restarts.count(dead.connection.gone if dead is not None else None)
            await self.restart()

    def _make_session(self, on_lost: Callable[[], None]) -> ClientSession:
        session = ClientSession(self, self._extensions, on_lost, self._handlers)
        if self._logs is not None:
            session.listeners.add(self._logs.notified)
        return session

    async def _ask_for_logs(self, level: str) -> None:
        """Ask a server that logs for a level, where a level is not part of each request."""
        if "logging/setLevel" in self._agreed().methods and self.capabilities.logging is not None:
            try:
                await self._send_once("logging/setLevel", {"level": level}, None, None)
            except (HttpStatus, RemoteError, SessionEnded) as problem:
                logger.warning("The server does not let its log level be set: %s", problem)

    async def _send(
        self,
        method: str,
        body: dict[str, Any],
        timeout: float | None,
        progress: OnProgress | None,
        id: int | None = None,
    ) -> Any:
        try:
            return await self._send_once(method, body, timeout, progress, id)
        except (SessionEnded, RemoteError) as problem:
            if self._connected().web is None or not self._retry_policy.allow(problem, method, body):
                raise
            await self._put_right(problem)
        return await self._send_once(method, body, timeout, progress)

    async def _put_right(self, problem: SessionEnded | RemoteError) -> None:
        """Begin a new session, or learn anew which arguments go into headers."""
        if isinstance(problem, SessionEnded):
            if await self._connected().renew_session() and self._log_level is not None:
                await self._ask_for_logs(self._log_level)
            return
        if self.cache is not None:
            self.cache.notified("notifications/tools/list_changed", {})
        await self.tools()

    async def _send_once(
        self,
        method: str,
        body: dict[str, Any],
        timeout: float | None,
        progress: OnProgress | None,
        id: int | None = None,
    ) -> Any:
        agreed, pending = self._agreed(), self._connected().connection.pending
        if id is None:
            id = pending.next_id()
        if progress is not None:
            body = {**body, "_meta": {**(body.get("_meta") or {}), "progressToken": id}}
        timeouts = Timeouts(self._timeout if timeout is None else timeout, self._max_timeout)
        result = await pending.request(method, body, timeouts, id=id, on_progress=progress)
        if agreed.result_type:
            self._check_type(method, result, agreed)
        return result

    async def _ask(
        self,
        method: str,
        params: dict[str, Any],
        kind: type[R],
        timeout: float | None = None,
        progress: OnProgress | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> R:
        try:
            raw = await self.request(method, params, timeout=timeout, progress=progress, meta=meta)
        except RemoteError as problem:
            if not requires_url_elicitation(problem, self._agreed(), self._handlers):
                raise
            await self._visit(problem, timeout)
            raw = await self.request(method, params, timeout=timeout, progress=progress, meta=meta)
        result = self._load(method, raw)
        if isinstance(result, InputRequired) and supports_input_required(self._agreed(), method):
            supervisor, agreed = self._connected(), self._agreed()
            rounds = InputRounds(method, self._handlers, agreed, supervisor.agreement.server, self._max_rounds)
            while isinstance(result, InputRequired):
                again = {**params, **await supervisor.unless_lost(rounds.answer(result))}
                raw = await self.request(method, again, timeout=timeout, progress=progress, meta=meta)
                result = self._load(method, raw)
        if not isinstance(result, kind):
            raise InvalidAnswer(f"{method} was answered with {type(result).__name__}, which this client cannot take")
        return result

    async def _visit(self, refusal: RemoteError, timeout: float | None) -> None:
        supervisor = self._connected()
        seconds = self._timeout if timeout is None else timeout
        agreed, server = supervisor.agreement.revision, supervisor.agreement.server
        await supervisor.unless_lost(supervisor.session.visits.make(refusal, agreed, server, seconds))

    def _load(self, method: str, raw: Any) -> Value:
        try:
            return self._agreed().load_result(method, raw)
        except RemoteError as problem:
            raise InvalidAnswer(problem.message) from None

    def _check_type(self, method: str, result: Any, agreed: Revision) -> None:
        """A result type that neither side announced is invalid (2026-07-28 basic, "ResultType")."""
        kind = cast("dict[str, Any]", result).get("resultType") if isinstance(result, dict) else None
        if kind is None or kind == "complete":
            return
        if not isinstance(kind, str) or not (kind in agreed.outcomes or kind in self._extensions.result_types):
            raise InvalidAnswer(f"Invalid result of {method}: resultType {kind!r} is unknown")

    def _most_pages(self) -> int:
        return MAX_PAGES

    async def _pages(self, method: str, kind: type[PageResult], field: str) -> AsyncGenerator[Any]:
        cursor: str | None = None
        seen: set[str] = set()
        for _ in range(self._most_pages()):
            result = await self._ask(method, {} if cursor is None else {"cursor": cursor}, kind)
            for item in getattr(result, field):
                yield item
            cursor = result.next_cursor
            if cursor is None:
                return
            if cursor in seen:
                raise InvalidAnswer(f"{method} led in a circle: the cursor {cursor[:80]!r} came twice")
            seen.add(cursor)
        raise InvalidAnswer(f"{method} has more than {self._most_pages()} pages; nothing of it was taken")

    def _agreed(self) -> Revision:
        return self._connected().agreement.revision

    def _connected(self) -> Supervisor:
        if self._supervisor is None:
            if self._opened:
                raise ConnectionLost("the connection is being made anew, or could not be")
            raise LocalError(_NOT_OPEN)
        return self._supervisor


def _new_chain(middleware: Sequence[Middleware]) -> Chain:
    from dovetail.runtime.middleware import Chain

    return Chain(middleware)


def _new_restarts() -> RestartPolicy:
    from .retry_policy import RestartPolicy

    return RestartPolicy()


def _new_cache() -> ResultCache:
    from .cache import ResultCache

    return ResultCache()


def _find_revision(name: str | None) -> Revision | None:
    if name is None:
        return None
    found = REVISIONS.get(name)
    if found is None:
        raise LocalError(f"There is no protocol revision {name!r}; there are {', '.join(REVISIONS)}")
    return found
