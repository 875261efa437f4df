"""Methods of a gateway: each is answered by the server that it concerns, in the revision of the client.

A handler here follows the rule for handlers that return their questions: on an `InputRequired` result the framework
asks the client, in rounds or directly, and runs the handler again with the answers, which go to the server with its own
state. A server of the handshake era asks during its call; then the handler waits, and the call stays in progress at the
server until the client has answered. It is sent once in either case.
"""

from __future__ import annotations

import asyncio
import functools
import os
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import msgspec

from dovetail.auth.errors import AuthorizationFailed
from dovetail.middleware.telemetry import trace_context
from dovetail.protocol.bridge import (
    can_be_asked,
    forwarded_meta,
    outcome_of,
    retry_params,
    rewrite_uris,
    translate_error,
    translate_result,
)
from dovetail.protocol.client_address import client_text
from dovetail.protocol.envelope import LOG_LEVEL, PROGRESS_TOKEN, meta_of
from dovetail.protocol.errors import (
    INTERNAL_ERROR,
    METHOD_NOT_FOUND,
    URL_ELICITATION_REQUIRED,
    ConnectionLost,
    DovetailError,
    InvalidAnswer,
    OutcomeUnknown,
    ProtocolError,
    Refused,
    RemoteError,
    Timeout,
    URLElicitationRequired,
    outcome_unknown,
)
from dovetail.protocol.mrtr import MAX_ROUNDS
from dovetail.protocol.revisions.wrapping import is_object_schema
from dovetail.runtime.serve import Outcome, Work
from dovetail.server.dispatch import METHODS as SERVER_METHODS
from dovetail.server.dispatch import Method, run_handler, run_suspendable
from dovetail.server.dispatch import initialize as initialize_server
from dovetail.server.dispatch import set_level as set_server_level
from dovetail.server.features.logging import wanted_level
from dovetail.server.features.url_elicitation import COMPLETE, page_required
from dovetail.server.invocation import Invocation
from dovetail.server.session import ServerCall
from dovetail.server.tasks.methods import work_as_task
from dovetail.text.tool_search import CALL
from dovetail.types.base import EmptyParams, PageParams, RetriedParams
from dovetail.types.client_features import ElicitRequest, InputRequest, InputRequired
from dovetail.types.messages import CompleteParams, InitializeParams, ListenParams, PromptReference, SetLevelParams
from dovetail.types.serialization import dump, load
from dovetail.types.tasks import TASKS_EXTENSION
from dovetail.types.tools import CallToolResult

from .core import GatewayCore, empty_result
from .errors import ServerUnavailable
from .forwarded_tool import ForwardedTool, requires_task
from .search_mode import answer_search, called_tool, is_finder

if TYPE_CHECKING:
    from dovetail.protocol.revisions.revision import Revision
    from dovetail.types.prompts import GetPromptParams
    from dovetail.types.resources import ReadResourceParams, SubscribeParams
    from dovetail.types.serialization import Value
    from dovetail.types.tools import CallToolParams, Tool

    from .catalogue import Catalogue
    from .servers.connection import UpstreamConnection
    from .servers.upstream import Upstream

_ENDED = (
    "the gateway process that held this call while it waited for an answer has ended. The call was sent to the server "
    "before that, and is not sent again"
)

_POLL_SECONDS = (0.0, 0.1, 0.2, 0.5, 1.0)
"""Pauses before a request is repeated that its server has answered with a state and no question."""


def initialize(core: GatewayCore, call: ServerCall, params: InitializeParams) -> Outcome:
    """Negotiate the revision of a session; the first one waits a moment for the instructions of the servers."""
    answer = initialize_server(core, call, params)

    async def work() -> bytes:
        agreed = call.session.lifecycle.terms or call.terms
        terms = msgspec.structs.replace(call.terms, revision=agreed.revision, capabilities=agreed.capabilities)
        # With the capabilities of the handshake, so that the session goes on to use the connections that this opens.
        await core.know_instructions(ServerCall(call.request, terms, call.sink, call.connection, call.session))
        # Once more, with the instructions: what the session holds is the same.
        again = initialize_server(core, call, params)
        assert isinstance(again, bytes)
        return again

    return answer if core.middleware is not None else work


def discover(core: GatewayCore, call: ServerCall, params: EmptyParams) -> Outcome:
    """Describe the gateway to a client of the envelope era."""

    async def work() -> bytes:
        await core.know_instructions(call)
        answer = SERVER_METHODS["server/discover"](core, call, params)
        assert isinstance(answer, bytes)
        return answer

    return work


def list_page(core: GatewayCore, call: ServerCall, params: PageParams) -> Outcome:
    """Return one page of what the servers offer."""
    return functools.partial(core.encode_list, call, params)


def call_tool(core: GatewayCore, call: ServerCall, params: CallToolParams) -> Outcome:
    """Call a tool at its server; as a task of the gateway, if the client can have one and the server makes tasks."""
    if is_finder(params.name):
        return _forward(core, call, params, functools.partial(_find_tool, core, params))
    wants_task = _wants_task(call, params)
    hands_over = wants_task and call.terms.revision.tasks == "extension"
    work = _forward(core, call, params, functools.partial(forward_tool, core, params.name, hands_over=hands_over))
    if not wants_task:
        return work
    return functools.partial(_call_as_task, core, call, params, work)


def _wants_task(call: ServerCall, params: CallToolParams) -> bool:
    """True if the client asks for a task (2025-11-25), or can have one if the server wants (2026-07-28)."""
    tasks = call.terms.revision.tasks
    if tasks == "extension":
        return TASKS_EXTENSION in (call.terms.capabilities.extensions or {})
    return tasks == "core" and params.task is not None


async def _call_as_task(core: GatewayCore, call: ServerCall, params: CallToolParams, work: Work) -> bytes:
    upstream, _ = await core.find_named(call, "tool", params.name)
    tool, kind = core.tools.get(params.name), call.terms.revision.tasks
    # Where the server decides, the call stays a call until it answers with a task: its progress and log arrive.
    decides = kind == "extension" and upstream.revision is not None and upstream.revision.tasks == kind
    if tool is not None and not decides:
        work = work_as_task(core, call, params, tool) or work
    elif tool is None and params.task is not None and kind == "core":
        raise ProtocolError(METHOD_NOT_FOUND, f"The tool {params.name} does not run as a task: call it without `task`")
    try:
        return await work()
    except _BecameTask as became:
        tool = ForwardedTool(core, params.name, became.created)
    if core.tasks.has_room_for(client_text(call.client_key), tool):
        return await (work_as_task(core, call, params, tool) or work)()
    # A task that waits for room would be started from its arguments, and the call would be sent again.
    return await _run_handler(core, call, params, functools.partial(tool.invoke, arguments=params.arguments or {}))


class _BecameTask(Exception):
    """The server has answered a call with a task of its own, which a task of the gateway is to wait for."""

    def __init__(self, created: bytes) -> None:
        super().__init__()
        self.created = created


class _ServerTask(NamedTuple):
    """The answer to a call that is a task of the server."""

    created: bytes


async def _find_tool(core: GatewayCore, params: CallToolParams, invocation: Invocation) -> Value | bytes:
    """Search, describe or call a tool, where a client gets these three in place of all tools."""
    catalogue = (await core.listing(invocation.call)).catalogue
    if params.name in catalogue.tools or not core.is_searched(invocation.call, catalogue):
        return await forward_tool(core, params.name, invocation)
    arguments = params.arguments or {}
    if params.name != CALL:
        return answer_search(params.name, arguments, core.shown_tools(invocation.call, catalogue))
    name, inner = called_tool(arguments)
    return await forward_tool(core, name, invocation, inner)


async def finish_tool(core: GatewayCore, name: str, invocation: Invocation, created: bytes) -> Value | bytes:
    """Wait for the task that a server has answered a call with."""
    upstream, tool = await core.find_named(invocation.call, "tool", name)
    result = await forward(core, upstream, invocation, {}, name, tool, created=created)
    assert not isinstance(result, _ServerTask)
    return result


async def forward_tool(
    core: GatewayCore,
    name: str,
    invocation: Invocation,
    arguments: dict[str, Any] | None = None,
    *,
    hands_over: bool = False,
) -> Value | bytes:
    """Call a tool at its server, in the name of the client of an invocation; with other arguments, if given.

    With `hands_over`, a task that the server answers with is raised as `_BecameTask`; otherwise it is waited for.
    """
    upstream, tool = await core.find_named(invocation.call, "tool", name)
    subject = core.subject("tool", upstream.key, tool.name, tool)
    replaced: dict[str, Any] = {"name": tool.name} if arguments is None else {"name": tool.name, "arguments": arguments}
    given = arguments_of(invocation) if arguments is None else arguments
    async with core.access.permitted(invocation, subject, given) as permit:
        result = await forward(core, upstream, invocation, replaced, name, tool, hands_over=hands_over)
        if not isinstance(result, _ServerTask):
            return permit.note(result)
    raise _BecameTask(result.created)


def _adapted(tool: Tool, result: CallToolResult[Any], rewrite: Callable[[str], str]) -> Value:
    """The result of a task for the client, with its URIs translated."""
    fields = dump(result)
    if rewrite_uris(fields, rewrite):
        result = load(CallToolResult, fields)
    _wrap(tool, result)
    return result


def _wrap(tool: Tool, result: Value) -> None:
    """Mark a result whose schema is not of an object, for revisions on which structured content must be one."""
    if isinstance(result, CallToolResult) and tool.output_schema is not None:
        result.wrapped = not is_object_schema(tool.output_schema)


def get_prompt(core: GatewayCore, call: ServerCall, params: GetPromptParams) -> Outcome:
    """Get a prompt from its server."""
    return _forward(core, call, params, functools.partial(_get_prompt, core, params.name))


async def _get_prompt(core: GatewayCore, name: str, invocation: Invocation) -> Value | bytes:
    upstream, prompt = await core.find_named(invocation.call, "prompt", name)
    subject = core.subject("prompt", upstream.key, prompt.name, prompt)
    async with core.access.permitted(invocation, subject, arguments_of(invocation)) as permit:
        return permit.note(await forward(core, upstream, invocation, {"name": prompt.name}, name))


def read_resource(core: GatewayCore, call: ServerCall, params: ReadResourceParams) -> Outcome:
    """Read a resource at its server."""
    return _forward(core, call, params, functools.partial(_read_resource, core, params.uri))


async def _read_resource(core: GatewayCore, uri: str, invocation: Invocation) -> Value | bytes:
    upstream, own_uri, _ = await core.find_uri(invocation.call, uri)
    async with core.access.permitted(invocation, core.subject("resource", upstream.key, own_uri), {}) as permit:
        return permit.note(await forward(core, upstream, invocation, {"uri": own_uri}, ""))


def arguments_of(invocation: Invocation) -> dict[str, Any]:
    """The arguments of a tool or prompt in a request."""
    given = invocation.call.request.params.get("arguments")
    return cast("dict[str, Any]", given) if isinstance(given, dict) else {}


def _forward(core: GatewayCore, call: ServerCall, params: RetriedParams, handle: Any) -> Work:
    """The work of a request that its server may answer with questions."""
    rounds = call.terms.revision.server_requests == "rounds"
    if rounds and (params.request_state is not None or can_be_asked(call.terms.capabilities)):
        return functools.partial(run_suspendable, core, call, params, handle)
    return functools.partial(_run_handler, core, call, params, handle)


async def _run_handler(core: GatewayCore, call: ServerCall, params: RetriedParams, handle: Any) -> bytes:
    """Run a handler whose questions are asked directly; a server with rounds cannot be given an error as an answer."""
    handling = False

    async def run(invocation: Invocation) -> Value | bytes:
        nonlocal handling
        handling = True
        result = await handle(invocation)
        handling = False
        return result

    try:
        return await run_handler(core, call, params, run)
    except (Refused, RemoteError) as problem:
        if handling:
            raise
        text = f"The client has answered what the server asked with an error: {problem}"
        raise ProtocolError(INTERNAL_ERROR, text) from problem


async def forward(
    core: GatewayCore,
    upstream: Upstream,
    invocation: Invocation,
    replaced: Mapping[str, Any],
    label: str,
    tool: Tool | None = None,
    *,
    hands_over: bool = False,
    created: bytes | None = None,
) -> Any:
    """Send the request of an invocation to a server, with some params replaced; its result for the client.

    With `hands_over`, the result may be a `_ServerTask`. With `created`, that was the answer to it already.
    """
    call = invocation.call
    method, revision = call.request.method, call.terms.revision
    began, error, failure = time.perf_counter(), True, False
    try:
        async with upstream.leased(call) as connection:
            source = connection.revision
            if invocation.is_replaying:
                raise outcome_unknown(_ENDED)
            params = {key: value for key, value in call.request.params.items() if key not in _OF_ONE_HOP}
            params.update(replaced)
            if source.server_requests == "rounds":
                params.update(retry_params(invocation.answers, invocation.request_state, source))
            catalogue = await core.catalogue(call)
            if created is None or tool is None:
                result = await _exchange(upstream, connection, invocation, params, catalogue, tool, hands_over)
            else:
                with connection.relayed.serving(invocation):
                    result = await _finish(upstream, connection, invocation, catalogue, tool, created)
        error = False
        return result
    except RemoteError as problem:
        upstream.answered()
        if problem.code == URL_ELICITATION_REQUIRED and COMPLETE not in revision.methods:
            return await _require_page(problem, invocation)
        raise translate_error(problem, method, revision) from problem
    except AuthorizationFailed as problem:
        raise ServerUnavailable(upstream.key, str(problem)) from problem
    except OutcomeUnknown as problem:
        failure = True
        raise outcome_unknown(f"the connection to the server {upstream.key!r} was lost: {problem.reason}") from problem
    except ConnectionLost as problem:
        failure = True
        raise ServerUnavailable(upstream.key, str(problem)) from problem
    except Timeout as problem:
        failure = True
        upstream.timed_out(problem)
        raise ProtocolError(INTERNAL_ERROR, f"The server {upstream.key!r} gave no answer: {problem}") from problem
    except InvalidAnswer as problem:
        text = f"The server {upstream.key!r} gave an invalid answer: {problem}"
        raise ProtocolError(INTERNAL_ERROR, text) from problem
    finally:
        seconds = time.perf_counter() - began
        core.metrics.record(upstream.key, method, label, seconds, error=error, failure=failure)


_OF_ONE_HOP = frozenset({"_meta", "inputResponses", "requestState", "task"})
"""Params that are written anew for each hop."""


async def _exchange(
    upstream: Upstream,
    connection: UpstreamConnection,
    invocation: Invocation,
    params: dict[str, Any],
    catalogue: Catalogue,
    tool: Tool | None,
    hands_over: bool,
) -> Value | bytes | _ServerTask:
    """Send a request and translate its result; one that is to be repeated later, without any question, is repeated."""
    call = invocation.call
    method, revision, source = call.request.method, call.terms.revision, connection.revision
    # The span of the server becomes a child of ours, if there is one, and else of the client's.
    meta, progress = {**forwarded_meta(call.request.params), **trace_context()}, None
    if PROGRESS_TOKEN in (meta_of(call.request.params) or {}):
        progress = functools.partial(_report_progress, invocation)
    level = wanted_level(call)
    if level is not None:
        if source.era == "envelope":
            meta[LOG_LEVEL] = level
        else:
            await connection.use_log_level(level)

    def rewrite(uri: str) -> str:
        return catalogue.shown_uri(upstream.key, uri)

    adapt = None if tool is None else functools.partial(_wrap, tool)
    if tool is not None and source.tasks == "core" and requires_task(tool):
        params["task"] = {}

    with connection.relayed.serving(invocation):
        if connection.relayed.roots_missed:
            # It asked when there was nobody to ask; now there is.
            connection.relayed.roots_missed = False
            connection.notify_roots_changed()
        for polled in range(MAX_ROUNDS):
            raw = await connection.forward(method, params, meta, progress)
            upstream.answered()
            if tool is not None and ("task" in params or outcome_of(method, raw) == "task"):
                is_task = hands_over and "task" not in params
                finish = functools.partial(_finish, upstream, connection, invocation, catalogue, tool)
                return _ServerTask(raw) if is_task else await finish(raw)
            result = translate_result(method, raw, source, revision, rewrite, adapt)
            if not isinstance(result, InputRequired):
                return result
            if result.requests:
                _name_pages(result.requests, revision)
                return result
            if result.state is None:
                raise InvalidAnswer(f"{method} asked for input without saying which")
            params = {key: value for key, value in params.items() if key != "inputResponses"}
            params["requestState"] = result.state
            await asyncio.sleep(_POLL_SECONDS[min(polled, len(_POLL_SECONDS) - 1)])
    raise InvalidAnswer(f"{method} was to be repeated more than {MAX_ROUNDS} times")


async def _finish(
    upstream: Upstream,
    connection: UpstreamConnection,
    invocation: Invocation,
    catalogue: Catalogue,
    tool: Tool,
    created: bytes,
) -> Value:
    """Wait for the task that a call was answered with."""
    result = await connection.finish_task(tool.name, created, functools.partial(_report_progress, invocation))
    return _adapted(tool, result, lambda uri: catalogue.shown_uri(upstream.key, uri))


def _name_pages(questions: Mapping[str, InputRequest], revision: Revision) -> None:
    """Give each page that a server with rounds asks for an id, where the client requires one (2025-11-25)."""
    for question in questions.values():
        if isinstance(question, ElicitRequest) and question.params.mode == "url" and COMPLETE in revision.methods:
            question.params.elicitation_id = question.params.elicitation_id or os.urandom(16).hex()


async def _report_progress(invocation: Invocation, progress: float, total: float | None, message: str | None) -> None:
    """Pass progress on to the request that is served now: a call that was asked something goes on with another one."""
    await invocation.call.progress(progress, total, message)


async def _require_page(problem: RemoteError, invocation: Invocation) -> Value:
    """Ask for the page that a server of 2025-11-25 requires, on a revision that has no error for it."""
    data = problem.data
    pages = cast("dict[str, Any]", data).get("elicitations") if isinstance(data, dict) else None
    page = cast("list[Any]", pages)[0] if isinstance(pages, list) and pages else None
    url = cast("dict[str, Any]", page).get("url") if isinstance(page, dict) else None
    if not isinstance(url, str):
        raise ProtocolError(INTERNAL_ERROR, f"The server requires a page to be opened, and names none: {problem}")
    return await page_required(URLElicitationRequired(problem.message, url), invocation)


def complete(core: GatewayCore, call: ServerCall, params: CompleteParams) -> Outcome:
    """Suggest values for an argument, by asking the server of the prompt or template."""
    core.completions.admit(call.client_key or id(call.session))
    return functools.partial(_complete, core, call, params)


async def _complete(core: GatewayCore, call: ServerCall, params: CompleteParams) -> bytes:
    reference = params.ref
    given = cast("dict[str, Any]", call.request.params["ref"])
    if isinstance(reference, PromptReference):
        upstream, prompt = await core.find_named(call, "prompt", reference.name)
        core.access.refuse_denied(call, core.subject("prompt", upstream.key, prompt.name, prompt))
        changed = {**given, "name": prompt.name}
    else:
        upstream, uri, _ = await core.find_uri(call, reference.uri)
        core.access.refuse_denied(call, core.subject("resource", upstream.key, uri))
        changed = {**given, "uri": uri}
    connection = await upstream.connection(call)
    if connection.server_capabilities.completions is None and connection.revision.known["ServerCapabilities"] >= {
        "completions"
    }:
        raise ProtocolError(METHOD_NOT_FOUND, f"The server {upstream.key!r} completes nothing")
    result = await forward(core, upstream, Invocation(core, call), {"ref": changed}, "")
    return result if isinstance(result, bytes) else core.encode_result(call, result)


def set_level(core: GatewayCore, call: ServerCall, params: SetLevelParams) -> Outcome:
    """Set the level of log messages of a session, also at the servers that it is connected to."""
    answer = set_server_level(core, call, params)

    async def work() -> bytes:
        for upstream in core.upstreams.values():
            for connection in upstream.connections_of(call.session):
                try:
                    await connection.use_log_level(params.level)
                except DovetailError:
                    continue  # the next request to it says what is wrong
        assert isinstance(answer, bytes)
        return answer

    return work


def subscribe(core: GatewayCore, call: ServerCall, params: SubscribeParams) -> Outcome:
    """Subscribe a session to updates of a resource, at its server."""

    async def work() -> bytes:
        if not call.session.keeps_state:
            raise ProtocolError(METHOD_NOT_FOUND, f"{call.request.method} needs a session, and none are kept here")
        await core.subscribe(call, params.uri, call.session)
        call.session.subscriptions.add(params.uri)
        return empty_result(call)

    return work


def unsubscribe(core: GatewayCore, call: ServerCall, params: SubscribeParams) -> Outcome:
    """End a session's subscription to a resource."""

    async def work() -> bytes:
        call.session.subscriptions.remove(params.uri)
        await core.unsubscribe(call, params.uri, call.session)
        return empty_result(call)

    return work


def listen(core: GatewayCore, call: ServerCall, params: ListenParams) -> Outcome:
    """Open a subscription that lasts as long as its request (2026-07-28 subscriptions)."""

    async def work() -> bytes:
        session, wanted = call.session, params.notifications
        uris: list[str] = []
        for uri in core.accepted_filter(wanted, call.terms.principal).resource_subscriptions or ():
            try:
                await core.subscribe(call, uri, session)
                uris.append(uri)
            except ProtocolError:
                continue  # the acknowledgement says which were accepted
        wanted.resource_subscriptions = uris or None
        listening = SERVER_METHODS["subscriptions/listen"](core, call, params)
        assert listening is not None
        assert not isinstance(listening, bytes)
        try:
            return await listening()
        finally:
            for uri in uris:
                await core.unsubscribe(call, uri, session)

    return work


METHODS: dict[str, Method] = {
    **SERVER_METHODS,
    "initialize": cast(Method, initialize),
    "server/discover": cast(Method, discover),
    "tools/list": cast(Method, list_page),
    "tools/call": cast(Method, call_tool),
    "resources/list": cast(Method, list_page),
    "resources/templates/list": cast(Method, list_page),
    "resources/read": cast(Method, read_resource),
    "prompts/list": cast(Method, list_page),
    "prompts/get": cast(Method, get_prompt),
    "completion/complete": cast(Method, complete),
    "logging/setLevel": cast(Method, set_level),
    "resources/subscribe": cast(Method, subscribe),
    "resources/unsubscribe": cast(Method, unsubscribe),
    "subscriptions/listen": cast(Method, listen),
}
