"""`Client`: a connection to one server, and the requests that it can be sent."""

from __future__ import annotations

import functools
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

from dovetail import __version__
from dovetail.client.targets.resolve import Target, http_settings, resolve_target
from dovetail.protocol.envelope import LOG_LEVEL
from dovetail.protocol.errors import (
    DovetailError,
    InvalidParams,
    LocalError,
)
from dovetail.protocol.extension import Extension, Extensions
from dovetail.protocol.revisions import REVISIONS
from dovetail.protocol.revisions.revision import Revision
from dovetail.runtime.connection import Trace
from dovetail.runtime.pending_requests import OnProgress
from dovetail.transports.base import MAX_RECEIVED
from dovetail.types.capabilities import ClientCapabilities, Implementation, ServerCapabilities
from dovetail.types.messages import CompleteResult, Completion, LogLevel
from dovetail.types.prompts import GetPromptResult, ListPromptsResult, Prompt
from dovetail.types.resources import (
    ListResourcesResult,
    ListResourceTemplatesResult,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
)
from dovetail.types.tasks import TASKS_EXTENSION, ListTasksResult
from dovetail.types.tools import CallToolResult, Tool

from .call_results import merge_arguments, taken_as_option
from .connection import ClientConnection, new_cache, new_chain, new_restart_policy
from .elicitation import Mode, OnElicit
from .listing import MAX_ITEMS, MAX_LIST_BYTES, ListLimits, read_pages
from .logs import LogDelivery, OnLog, initial_log_level
from .mrtr import MAX_ROUNDS
from .negotiation import SHARED_ERAS, EraCache
from .negotiator import ConnectOptions
from .roots import Roots
from .server_requests import OnSample, RequestHandlers

if TYPE_CHECKING:
    from dovetail.client.targets.http import Credentials
    from dovetail.runtime.middleware import Middleware
    from dovetail.transports.http.contract import HttpOptions

    from .blocking import BlockingClient
    from .completion import Debounce, Reference
    from .subscriptions import Change
    from .tasks.task import Task

ROOTS_CHANGED = "notifications/roots/list_changed"

T = TypeVar("T")


class Client(ClientConnection):
    """A client of one server, over any transport: `async with Client("python server.py") as c`.

    The server's requests are handled by `on_elicit` (the user), `on_sample` (a model) and `roots`; only capabilities
    that have a handler are declared. A handler may be a plain function, which runs in a thread, or an async one.
    `on_elicit` returns a form's content to accept, "accept" for a page, None to decline, or "cancel". To decline,
    `on_elicit` and `on_sample` may raise `Refused`. Their time counts towards no timeout.

    `middleware` wraps every request in both directions, except those of the negotiation. With `cache`, results that the
    server declares cacheable are kept until they expire or `client.cache.clear()`. With `restart`, a call restarts a
    server that has ended; calls in flight when it ended still fail, since their outcome is unknown.

    A server that is started as a program inherits the variables of our environment that programs need, all of them with
    `inherit_env`, and `env` in addition. `on_stderr` is called with each line that it writes to stderr; otherwise they
    go to our stderr, those from before the handshake only if it fails.

    A message of the server above `max_message_bytes` is refused, over every transport.

    For a server behind a URL, `headers` are sent with each request, `auth` is a bearer token or a function that returns
    one, called again when the server refuses it, and `http` has further options, such as proxies and certificates.
    `strict` makes an item of a list that cannot be read an error. `max_items` and `max_list_bytes` bound lists.
    Without `auth`, stored logins are used where the server requires one, and an interactive user may log in; with
    `auth=False` neither happens. `eras` remembers which era a server speaks; by default all clients share one cache.

    Options:
        revision: The protocol revision to speak; by default the newest that both sides know.
        timeout: Seconds to wait for an answer; None for ever.
        max_timeout: Seconds up to which progress extends a timeout.
        env: Environment variables of a server that is started as a program.
        inherit_env: Hand on all of our environment variables.
        cwd: The folder that a program is started in.
        on_stderr: A function that is called with each line that a program writes to stderr.
        info: Our name and version, for the server.
        extensions: Extensions that the client supports.
        experimental: Experimental capabilities to declare.
        on_elicit: A function that answers elicitation.
        on_sample: A function that answers sampling.
        roots: Folders that the server may know: paths, `Root` values, or a function.
        headers: Headers of every HTTP request.
        auth: A token, a function that returns one, or an `OAuth`; False for no stored account.
        http: `HttpOptions`, such as proxies and certificates.
        on_log: A function that receives the server's log messages.
        log_level: The lowest level to receive.
        elicit_modes: The kinds of elicitation that `on_elicit` supports.
        sample_tools: True if `on_sample` supports tools.
        max_rounds: Rounds of one call, on revisions with rounds.
        middleware: Middleware around every request, the first one outermost.
        cache: Cache results for as long as the server allows.
        restart: Restart the server's process for the next call if it has ended.
        max_message_bytes: The longest message that is accepted from the server.
        trace: A function that receives "sent" or "received", and the bytes of each message.
        eras: The cache of the eras that servers speak; by default all clients share one.
        strict: An item of a list that cannot be read raises; otherwise it is left out with a warning.
        max_items: Items of a list, over all its pages.
        max_list_bytes: Bytes of a list as JSON, over all its pages.
    """

    _debounce: Debounce | None = None

    def __init__(
        self,
        target: Target,
        *,
        revision: str | None = None,
        timeout: float | None = 30,
        max_timeout: float | None = None,
        env: Mapping[str, str] | None = None,
        inherit_env: bool = False,
        cwd: str | os.PathLike[str] | None = None,
        on_stderr: Callable[[str], None] | None = None,
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
        max_message_bytes: int = MAX_RECEIVED,
        trace: Trace | None = None,
        eras: EraCache | None = None,
        strict: bool = False,
        max_items: int = MAX_ITEMS,
        max_list_bytes: int = MAX_LIST_BYTES,
    ) -> None:
        """Prepare a client; `open`, or `async with`, connects."""
        known = Extensions([*extensions, *(() if any(each.id == _TASKS.id for each in extensions) else (_TASKS,))])
        handlers = RequestHandlers(on_elicit, on_sample, roots, elicit_modes, sample_tools=sample_tools)
        super().__init__(
            resolve_target(
                target, env, cwd, http_settings(headers, auth, http), inherit_env=inherit_env, on_stderr=on_stderr
            ),
            ConnectOptions(
                info=info or Implementation("dovetail", __version__),
                capabilities=_declared(handlers, known, experimental),
                revision=_find_revision(revision),
                timeout=timeout,
                max_message_bytes=max_message_bytes,
                log_level=initial_log_level(log_level, wanted=on_log is not None),
                trace=trace,
                eras=SHARED_ERAS if eras is None else eras,
            ),
            handlers,
            known,
            LogDelivery(on_log) if on_log is not None else None,
            list_limits=ListLimits(max_items, max_list_bytes),
        )
        self._max_timeout, self._max_rounds, self._strict = max_timeout, max_rounds, strict
        self._restart_policy = new_restart_policy() if restart else None
        self.cache, self.middleware = new_cache() if cache else None, new_chain(middleware) if middleware else None

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
        except DovetailError as problem:
            self._opened = False
            # Its text says what is wrong; the frames of the task that negotiated would only hide it.
            raise problem.with_traceback(None) from None
        except BaseException:
            self._opened = False
            raise

    async def close(self) -> None:
        """Disconnect; a server that this client started is stopped."""
        self._opened = False
        await self._disconnect()

    async def restart(self) -> None:
        """Disconnect and connect again; a server that this client started is restarted."""
        await self._reconnect()

    def use(self, middleware: Middleware, *, methods: Iterable[str] | None = None) -> Middleware:
        """Add a middleware inside of those that there are, for all requests or those of some methods."""
        if self.middleware is None:
            self.middleware = new_chain(())
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

    async def tools(self, *, strict: bool | None = None) -> list[Tool]:
        """All tools, from all pages; empty if the server offers none, as all lists are.

        A tool that cannot be read is left out with a warning. With `strict`, here or for the client, it raises.
        """
        return await self._learn_tools(strict)

    async def resources(self, *, strict: bool | None = None) -> list[Resource]:
        """All resources, from all pages."""
        return await self._list("resources/list", ListResourcesResult, "resources", strict)

    async def resource_templates(self, *, strict: bool | None = None) -> list[ResourceTemplate]:
        """All resource templates, from all pages."""
        kind = ListResourceTemplatesResult
        return await self._list("resources/templates/list", kind, "resource_templates", strict)

    async def prompts(self, *, strict: bool | None = None) -> list[Prompt]:
        """All prompts, from all pages."""
        return await self._list("prompts/list", ListPromptsResult, "prompts", strict)

    @overload
    async def call(
        self,
        name: str,
        /,
        arguments: Mapping[str, Any] | None = None,
        *,
        returns: None = None,
        timeout: float | None = None,
        progress: OnProgress | None = None,
        check: bool = True,
        meta: Mapping[str, Any] | None = None,
        **named: Any,
    ) -> CallToolResult[Any]: ...

    @overload
    async def call(
        self,
        name: str,
        /,
        arguments: Mapping[str, Any] | None = None,
        *,
        returns: type[T],
        timeout: float | None = None,
        progress: OnProgress | None = None,
        check: bool = True,
        meta: Mapping[str, Any] | None = None,
        **named: Any,
    ) -> CallToolResult[T]: ...

    @overload
    async def call(
        self,
        name: str,
        /,
        arguments: Mapping[str, Any] | None = None,
        *,
        returns: Any,
        timeout: float | None = None,
        progress: OnProgress | None = None,
        check: bool = True,
        meta: Mapping[str, Any] | None = None,
        **named: Any,
    ) -> CallToolResult[Any]: ...

    async def call(
        self,
        name: str,
        /,
        arguments: Mapping[str, Any] | None = None,
        *,
        returns: Any = None,
        timeout: float | None = None,
        progress: OnProgress | None = None,
        check: bool = True,
        meta: Mapping[str, Any] | None = None,
        **named: Any,
    ) -> CallToolResult[Any]:
        """Call a tool: `await client.call("search", text="x", returns=list[Book])`.

        The arguments of the tool are keywords, or the mapping `arguments`, for names that are options too.

        Options:
            arguments: The arguments as a mapping; keywords are added to it.
            returns: The type of `data`: a dataclass, TypedDict, msgspec, attrs or pydantic class, or a hint such as
                `list[Book]`. Data that does not fit raises `InvalidAnswer`. By default `data` is JSON.
            timeout: Seconds to wait for the answer; by default those of the client. Progress extends it.
            progress: A function that is called with `(done, total, message)` of each report.
            check: If false, a result with `isError` is returned; by default it raises `ToolFailed`.
            meta: Further `_meta` of the request.
        """
        params: dict[str, Any] = {"name": name, "arguments": merge_arguments(arguments, named)}
        if self._decides_tasks and await self._task_support(name) == "required":
            params["task"] = {}
            if progress is not None:
                from .tasks.calls import keep_progress

                with keep_progress(self._task_services(), progress) as token:
                    return await self.call(
                        name,
                        params["arguments"],
                        returns=returns,
                        timeout=timeout,
                        check=check,
                        meta={**(meta or {}), "progressToken": token},
                    )
        try:
            result = await self._call_tool(params, timeout, progress, meta)
        except InvalidParams as problem:
            advice = taken_as_option(problem.message, name, timeout, progress, meta, returns, check=check)
            if advice is not None:
                problem.args = (f"{problem} ({advice})",)
            raise
        if not isinstance(result, CallToolResult):
            from .tasks.calls import finish_call

            return await finish_call(self._task_services(), name, result, returns, timeout, progress, check=check)
        return await self._complete_call(name, result, returns, timeout, progress, meta, check=check)

    @overload
    async def start(
        self,
        name: str,
        /,
        arguments: Mapping[str, Any] | None = None,
        *,
        returns: type[T],
        ttl: float | None = None,
        meta: Mapping[str, Any] | None = None,
        **named: Any,
    ) -> Task[T]: ...

    @overload
    async def start(
        self,
        name: str,
        /,
        arguments: Mapping[str, Any] | None = None,
        *,
        returns: Any = None,
        ttl: float | None = None,
        meta: Mapping[str, Any] | None = None,
        **named: Any,
    ) -> Task[Any]: ...

    async def start(
        self,
        name: str,
        /,
        arguments: Mapping[str, Any] | None = None,
        *,
        returns: Any = None,
        ttl: float | None = None,
        meta: Mapping[str, Any] | None = None,
        **named: Any,
    ) -> Task[Any]:
        """Call a tool without waiting for its result: `task = await client.start("render", scene="x")`.

        Where the server makes a task of the call, it goes on without this process; otherwise it runs in the background
        until the client is closed. The server may take a few seconds to decide. The client's timeout does not apply.

        Options:
            arguments: The arguments as a mapping; keywords are added to it.
            returns: The type of `data` of the result, as for `call`.
            ttl: Seconds for which the server is asked to keep the task; on 2025-11-25 only, elsewhere it decides.
            meta: Further `_meta` of the request.
        """
        from .tasks.calls import start_call

        params: dict[str, Any] = {"name": name, "arguments": merge_arguments(arguments, named)}
        is_task = self._decides_tasks and await self._task_support(name) in ("optional", "required")
        if is_task:
            params["task"] = {} if ttl is None else {"ttl": round(ttl * 1000)}
        call = functools.partial(self._call_tool, params, None if is_task else float("inf"), meta=meta)
        return await start_call(self._task_services(), name, call, returns, is_task=is_task)

    @overload
    def task(self, reference: str, *, returns: type[T]) -> Task[T]: ...

    @overload
    def task(self, reference: str, *, returns: Any = None) -> Task[Any]: ...

    def task(self, reference: str, *, returns: Any = None) -> Task[Any]:
        """The task that a `task.reference` stands for, perhaps from another process; no request is sent yet."""
        from .tasks.calls import find_task

        return find_task(self._task_services(), reference, returns)

    async def tasks(self) -> list[Task[Any]]:
        """All tasks that the server keeps for this client, where it lists them: on 2025-11-25, if it declares that."""
        from .tasks.calls import list_tasks

        if "list" not in (self.capabilities.tasks or {}) or self._connected().agreement.revision.tasks != "core":
            raise LocalError("The server does not list tasks; keep `task.reference` of those that you start")

        def request(params: dict[str, Any]) -> Awaitable[ListTasksResult]:
            return self._request_typed("tasks/list", params, ListTasksResult)

        found = await read_pages("tasks/list", "tasks", request, self._list_limits)
        return list_tasks(self._task_services(), found)

    async def read(self, uri: str, *, timeout: float | None = None) -> ReadResourceResult:
        """Read a resource."""
        return await self._request_typed("resources/read", {"uri": uri}, ReadResourceResult, timeout)

    async def prompt(
        self,
        name: str,
        /,
        arguments: Mapping[str, str] | None = None,
        *,
        timeout: float | None = None,
        **named: str,
    ) -> GetPromptResult:
        """Get a prompt, filled in with keywords, or with the mapping `arguments`."""
        params = {"name": name, "arguments": merge_arguments(arguments, named)}
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
        """Subscribe to changes of resources, with those below them, or of lists; the same on every revision.

        It subscribes again when the stream breaks or the server ends the subscription. Changes that may have been
        missed meanwhile are reported with `missed`, one for each resource and list that is watched.
        """
        from .subscriptions import watch

        supervisor = self._connected()
        lists = {"tools": tools, "resources": resources, "prompts": prompts}
        wanted = [kind for kind in lists if lists[kind]]
        if not (uris or wanted):
            raise LocalError("There is nothing to watch: name resources, or say tools=True or the like")
        return watch(supervisor, self._meta, wanted, list(dict.fromkeys(uris)), self.request)


_TASKS = Extension(id=TASKS_EXTENSION, result_types=frozenset({"task"}))
"""Declared by every client, so that servers may make tasks of calls (2026-07-28 ext-tasks)."""


def _declared(
    handlers: RequestHandlers, extensions: Extensions, experimental: Mapping[str, Any] | None
) -> ClientCapabilities:
    """The capabilities of a client: those that it has handlers for, and those of extensions."""
    capabilities = ClientCapabilities(
        extensions=extensions.declared or None, experimental=dict(experimental or {}) or None
    )
    handlers.declare(capabilities)
    return capabilities


def _find_revision(name: str | None) -> Revision | None:
    if name is None:
        return None
    revision = REVISIONS.get(name)
    if revision is None:
        raise LocalError(f"There is no protocol revision {name!r}; there are {', '.join(REVISIONS)}")
    return revision
