"""The connection of a client: connecting, and the way of a request from its params to its loaded result."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

from dovetail.client.targets.contract import ServerTarget
from dovetail.protocol.deadline import Timeouts
from dovetail.protocol.envelope import meta_of, request_meta
from dovetail.protocol.errors import (
    ConnectionLost,
    DovetailError,
    HttpStatus,
    InvalidAnswer,
    LocalError,
    OutcomeUnknown,
    RemoteError,
    SessionEnded,
    ToolFailed,
)
from dovetail.protocol.extension import Extensions
from dovetail.protocol.revisions.revision import Revision
from dovetail.runtime.pending_requests import OnProgress
from dovetail.types.base import PageResult
from dovetail.types.client_features import InputRequired
from dovetail.types.serialization import Value
from dovetail.types.tasks import TASKS_EXTENSION, CreatedTask, CreateTaskResult
from dovetail.types.tools import CallToolResult, ListToolsResult, Tool

from .call_results import convert_data, load_call_result, taken_as_option
from .listing import MISSING_SERVERS_LOGGER, ListLimits, MissingServers, load_page, load_result, offers, read_pages
from .logs import LogDelivery, logger
from .mrtr import MAX_ROUNDS, InputRounds, supports_input_required
from .negotiator import ConnectOptions
from .output_validation import OutputValidator
from .retry_policy import RetryPolicy
from .server_requests import RequestHandlers
from .session import ClientSession
from .supervisor import Supervisor
from .url_elicitation import requires_url_elicitation

if TYPE_CHECKING:
    from dovetail.runtime.middleware import Chain, Middleware
    from dovetail.wire.jsonrpc import Id

    from .cache import ResultCache
    from .retry_policy import RestartPolicy
    from .tasks.services import TaskServices

NOT_OPEN = "This client is not open: use `async with Client(…)`, or await open()"

Called: TypeAlias = CallToolResult[Any] | CreatedTask | CreateTaskResult

_CALLED: tuple[type[CallToolResult[Any]], type[CreatedTask], type[CreateTaskResult]] = (
    CallToolResult,
    CreatedTask,
    CreateTaskResult,
)
"""The types of answers to a call."""

R = TypeVar("R", bound=Value)


class ClientConnection:
    """The part of a client that connects, sends requests and loads their results; `Client` has the requests."""

    def __init__(
        self,
        target: ServerTarget,
        options: ConnectOptions,
        handlers: RequestHandlers,
        extensions: Extensions,
        logs: LogDelivery | None,
        *,
        list_limits: ListLimits,
    ) -> None:
        self._target = target
        self._options = options
        self._handlers = handlers
        self._extensions = extensions
        self._logs = logs
        self._list_limits = list_limits
        self._missing_servers = MissingServers()
        self._max_timeout: float | None = None
        self._max_rounds = MAX_ROUNDS
        self._strict = False
        self._outputs, self._retry_policy = OutputValidator(), RetryPolicy()
        self._restart_policy: RestartPolicy | None = None
        self._opened = False
        self._supervisor: Supervisor | None = None
        self._meta: dict[str, Any] | None = None
        """The `_meta` of every request in the envelope era; None in the handshake era."""
        self._tasks: TaskServices | None = None
        self._decides_tasks = False
        """The client decides which calls are tasks, and the server has declared them (2025-11-25)."""
        self._tool_tasks: dict[str, str] | None = None
        """By tool: its support for tasks; None before the tools are listed, and when they have changed."""
        self.cache: ResultCache | None = None
        self.middleware: Chain | None = None

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
            self._meta = request_meta(revision, options.info, options.declared(revision), options.log_level)
        self._decides_tasks = revision.tasks == "core" and _runs_calls_as_tasks(supervisor.agreement.capabilities.tasks)
        self._tool_tasks = None
        if self._decides_tasks:
            supervisor.session.notification_callbacks.add(self._tools_changed)
        self._outputs = OutputValidator()
        supervisor.session.notification_callbacks.add(self._outputs.notified)
        if self.cache is not None:
            supervisor.session.notification_callbacks.add(self.cache.notified)
            supervisor.session.interruption_callbacks.add(self.cache.clear)
        if options.log_level is not None:
            try:
                await self._send_log_level(options.log_level)
            except BaseException:
                await self._disconnect()
                raise

    async def _disconnect(self) -> None:
        if self._tasks is not None:
            tasks, self._tasks = self._tasks, None
            await tasks.close()
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
            await self._reconnect()

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
            except (HttpStatus, OutcomeUnknown, RemoteError, SessionEnded) as problem:
                if self._connected().connection.gone is not None:
                    raise
                logger.warning("The server does not let its log level be set: %s", problem)

    async def _send(
        self,
        method: str,
        body: dict[str, Any],
        timeout: float | None,
        progress: OnProgress | None,
        id: Id | None = None,
        *,
        retry: bool = True,
        raw: bool = False,
    ) -> Any:
        """Send a request; once more where the retry policy allows it, after the cause of the failure is repaired.

        With `raw` the result is a `msgspec.Raw`, on a connection with `raw_results`.
        """
        supervisor = self._connected()
        pending = supervisor.connection.pending
        if id is None:
            id = pending.next_id()
        params = body
        if progress is not None:
            params = {**body, "_meta": {**(meta_of(body) or {}), "progressToken": id}}
        timeouts = Timeouts(self._options.timeout if timeout is None else timeout, self._max_timeout)
        try:
            result = await pending.request(method, params, timeouts, id=id, on_progress=progress, raw=raw)
        except (OutcomeUnknown, SessionEnded, RemoteError) as problem:
            usable = retry and supervisor.http is not None and supervisor.connection.gone is None
            if not usable or not self._retry_policy.allow(problem, method, body):
                if isinstance(problem, SessionEnded) and problem.ran:
                    raise OutcomeUnknown(str(problem)) from problem
                raise
            await self._repair(problem)
            return await self._send(method, body, timeout, progress, retry=False, raw=raw)
        revision = supervisor.agreement.revision
        if revision.result_type:
            self._check_type(method, result, revision)
        return result

    async def _repair(self, problem: OutcomeUnknown | SessionEnded | RemoteError) -> None:
        """Begin a new session, or learn again which arguments go into headers."""
        if isinstance(problem, OutcomeUnknown):
            return
        if isinstance(problem, SessionEnded):
            level = self._options.log_level
            if await self._connected().renew_session() and level is not None:
                await self._send_log_level(level)
            return
        if self.cache is not None:
            self.cache.notified("notifications/tools/list_changed", {})
        await self._learn_tools()

    async def _request_typed(
        self,
        method: str,
        params: dict[str, Any],
        kind: type[R] | tuple[type[R], ...],
        timeout: float | None = None,
        progress: OnProgress | None = None,
        meta: Mapping[str, Any] | None = None,
        load: Callable[[Revision, str, Any], Value] = load_result,
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
        result = load(revision, method, raw)
        if isinstance(result, InputRequired) and supports_input_required(revision, method):
            rounds = InputRounds(method, self._handlers, revision, supervisor.agreement.server, self._max_rounds)
            while isinstance(result, InputRequired):
                again = {**params, **await supervisor.unless_lost(rounds.answer(result))}
                raw = await self.request(method, again, timeout=timeout, progress=progress, meta=meta)
                result = load(revision, method, raw)
        if not isinstance(result, kind):
            raise InvalidAnswer(f"{method} was answered with {type(result).__name__}, which this client cannot take")
        return result

    async def _call_tool(
        self,
        params: dict[str, Any],
        timeout: float | None,
        progress: OnProgress | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> Called:
        """Send a call; its result, or the task that the server made of it."""
        called = await self._request_typed("tools/call", params, _CALLED, timeout, progress, meta, load_call_result)
        if isinstance(called, CreateTaskResult) and "task" not in params:
            raise InvalidAnswer("tools/call was answered with a task, which it did not ask for")
        return called

    async def _task_support(self, name: str) -> str:
        """The support of a tool for tasks, where the client decides which calls are tasks (2025-11-25)."""
        if self._tool_tasks is None:
            try:
                await self._learn_tools()
            except DovetailError as problem:
                logger.warning("The tools that support tasks are not known: %s", problem)
        return (self._tool_tasks or {}).get(name, "forbidden")

    async def _complete_call(
        self,
        name: str,
        result: CallToolResult[Any],
        returns: Any,
        timeout: float | None = None,
        progress: OnProgress | None = None,
        meta: Mapping[str, Any] | None = None,
        *,
        check: bool,
    ) -> CallToolResult[Any]:
        """The result of a call for its caller: a failure as an exception, data that was checked, and their type."""
        if result.is_error:
            if check:
                advice = taken_as_option(result.text, name, timeout, progress, meta, returns, check=check)
                raise ToolFailed(name, result, advice)
            return result
        await self._outputs.check(name, result, self._learn_tools)
        if returns is not None:
            convert_data(name, result, returns)
        return result

    def _task_services(self) -> TaskServices:
        """The parts of this client that tasks use; made for the first of them."""
        if self._tasks is None:
            from .tasks.services import TaskServices

            self._connected()
            self._tasks = TaskServices(
                request=self.request,
                supervisor=self._connected,
                meta=lambda: self._meta,
                complete=self._complete_call,
                handlers=self._handlers,
                restarts=self._restart_policy is not None,
                max_rounds=self._max_rounds,
                max_timeout=self._max_timeout,
            )
        return self._tasks

    def _check_type(self, method: str, result: Any, revision: Revision) -> None:
        """Refuse a result type that neither side declared (2026-07-28 basic, "ResultType")."""
        kind = cast("dict[str, Any]", result).get("resultType") if isinstance(result, dict) else None
        if kind is None or kind == "complete":
            return
        extension = self._extensions.result_types.get(kind) if isinstance(kind, str) else None
        if extension is None and kind not in revision.outcomes:
            raise InvalidAnswer(f"Invalid result of {method}: resultType {kind!r} is unknown")
        if extension == TASKS_EXTENSION and method != "tools/call":
            raise InvalidAnswer(f"Invalid result of {method}: only a call of a tool may become a task")

    async def _list(self, method: str, kind: type[PageResult], field: str, strict: bool | None) -> list[Any]:
        supervisor = self._supervisor
        if supervisor is not None and not offers(supervisor.agreement.capabilities, method):
            return []
        lenient = not (self._strict if strict is None else strict)
        load = functools.partial(load_page, report=self._warn_of_list) if lenient else load_result

        async def request(params: dict[str, Any]) -> PageResult:
            page = await self._request_typed(method, params, kind, load=load)
            for problem in self._missing_servers.unreported(page.meta):
                self._warn_of_missing(problem)
            return page

        return await read_pages(method, field, request, self._list_limits)

    def _warn_of_list(self, problem: str) -> None:
        logger.warning("%s", problem)

    def _warn_of_missing(self, problem: str) -> None:
        logging.getLogger(MISSING_SERVERS_LOGGER).warning("%s", problem)

    def _connected(self) -> Supervisor:
        if self._supervisor is None:
            if self._opened:
                raise ConnectionLost("the client is reconnecting, or could not reconnect")
            raise LocalError(NOT_OPEN)
        return self._supervisor

    async def _reconnect(self) -> None:
        if not self._opened:
            raise LocalError(NOT_OPEN)
        await self._disconnect()
        if not self._opened:
            raise ConnectionLost("the client was closed")
        await self._connect()

    async def _learn_tools(self, strict: bool | None = None) -> list[Tool]:
        """List the tools, and keep what calls need of them: headers, output schemas and hints for retries."""
        tools: list[Tool] = await self._list("tools/list", ListToolsResult, "tools", strict)
        if (channel := self._connected().http) is not None:
            tools = channel.learn_tools(tools)
        self._outputs.learn(tools)
        self._retry_policy.learn(tools)
        if self._decides_tasks:
            self._tool_tasks = {
                tool.name: tool.execution.task_support
                for tool in tools
                if tool.execution is not None and tool.execution.task_support is not None
            }
        return tools

    def _tools_changed(self, method: str, params: dict[str, Any]) -> None:
        if method == "notifications/tools/list_changed":
            self._tool_tasks = None


def _runs_calls_as_tasks(declared: dict[str, Any] | None) -> bool:
    """True if a server has declared `tasks.requests.tools.call`."""
    for key in ("requests", "tools", "call"):
        inner = (declared or {}).get(key)
        declared = cast("dict[str, Any]", inner) if isinstance(inner, dict) else None
    return declared is not None


def new_chain(middleware: Sequence[Middleware]) -> Chain:
    """A chain of middleware."""
    from dovetail.runtime.middleware import Chain

    return Chain(middleware)


def new_restart_policy() -> RestartPolicy:
    """The policy of a client with `restart`."""
    from .retry_policy import RestartPolicy

    return RestartPolicy()


def new_cache() -> ResultCache:
    """The cache of a client with `cache`."""
    from .cache import ResultCache

    return ResultCache()
