"""Dispatch: the method table of a server.

Each method has a plain function `(core, call, params)`. It returns the encoded result at once, or the work that leads
to it; `runtime/serve` turns both into the answer.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import msgspec

from dovetail.protocol.errors import (
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    ProtocolError,
    not_found_error,
)
from dovetail.protocol.extension import extensions_on, missing_extension
from dovetail.runtime.serve import Outcome, Work
from dovetail.types.base import CacheScope, EmptyParams, PageParams, Result, RetriedParams
from dovetail.types.capabilities import ListCapability, ResourcesCapability, ServerCapabilities
from dovetail.types.client_features import InputRequired
from dovetail.types.messages import (
    CompleteParams,
    DiscoverResult,
    InitializeParams,
    InitializeResult,
    ListenParams,
    SetLevelParams,
    SubscriptionFilter,
)
from dovetail.types.prompts import GetPromptParams
from dovetail.types.resources import ReadResourceParams, SubscribeParams
from dovetail.types.tools import CallToolParams
from dovetail.wire import codec

from .core import ServerCore
from .invocation import Handle, Invocation, ask_between_runs
from .session import ServerCall

if TYPE_CHECKING:
    from dovetail.protocol.extension import RequestHandler
    from dovetail.runtime.middleware import Chain

    from .features.tools import RegisteredTool
    from .signatures.binding import Binding

DEFAULT_LOG_LEVEL = "info"
"""The level before a client of the handshake era has set one (logging, "Setting Log Level")."""

Method: TypeAlias = "Callable[[ServerCore, ServerCall, Any], Outcome]"


def dispatch(core: ServerCore, call: ServerCall, *, wrapped: bool = False) -> Outcome:
    """Dispatch a request by its method, through the middleware if there is any for it and has not `wrapped` it yet."""
    request, revision = call.request, call.terms.revision
    if not wrapped and core.middleware is not None and core.middleware.wraps(request.method):
        return _through_middleware(core, core.middleware, call)
    method = (core.methods or METHODS).get(request.method)
    if method is None or request.method not in revision.methods:
        return _extension(core, call)
    return method(core, call, revision.accept("client", request.method, request.params))


def _through_middleware(core: ServerCore, chain: Chain, call: ServerCall) -> Outcome:
    from dovetail.runtime.middleware import pass_in

    # The requests that come right after initialize need its outcome, so it is not left to the middleware's task.
    inner = functools.partial(dispatch, core, wrapped=True)
    done = inner(call) if call.request.method == "initialize" else None
    return pass_in(chain, "server", call.terms.client, call, inner, answer=done)


def initialize(core: ServerCore, call: ServerCall, params: InitializeParams) -> Outcome:
    """Negotiate the revision of a session (lifecycle, "Initialization"); a second time, the session begins anew."""
    return negotiate(core, call, params)(core.instructions)


def negotiate(core: ServerCore, call: ServerCall, params: InitializeParams) -> Callable[[str | None], bytes]:
    """Begin a session with the revision that is agreed on; what is returned makes the answer, given instructions."""
    session = call.session
    revision = session.lifecycle.initialize(params)
    capabilities = core.capabilities()
    capabilities.extensions = extensions_on(revision, capabilities.extensions)
    if not session.keeps_state:
        capabilities = _stateless(capabilities)
    session.reset(None if capabilities.logging is None else DEFAULT_LOG_LEVEL)

    def answer(instructions: str | None) -> bytes:
        result = InitializeResult(revision.name, capabilities, core.info, instructions)
        return codec.encode(revision.emit_result("initialize", result))

    return answer


def _stateless(capabilities: ServerCapabilities) -> ServerCapabilities:
    """The capabilities that work without a session: nothing that is remembered, or sent later."""
    return msgspec.structs.replace(
        capabilities,
        tools=capabilities.tools and ListCapability(),
        prompts=capabilities.prompts and ListCapability(),
        resources=capabilities.resources and ResourcesCapability(),
        logging=None,
    )


def ping(core: ServerCore, call: ServerCall, params: EmptyParams) -> Outcome:
    """Answer a liveness check."""
    return codec.encode(call.terms.revision.emit_result("ping", Result()))


def discover(core: ServerCore, call: ServerCall, params: EmptyParams) -> Outcome:
    """Describe the server to a client of the envelope era (2026-07-28 server/discover)."""
    return describe(core, call, core.instructions, "public")


def describe(core: ServerCore, call: ServerCall, instructions: str | None, scope: CacheScope) -> bytes:
    """The description of a server for a client of the envelope era, and who may share it from a cache."""
    result = DiscoverResult(list(core.served)[::-1], core.capabilities(), instructions)
    result.ttl_ms, result.cache_scope = core.list_ttl_ms, scope
    return codec.encode(core.emit_result(call.terms.revision, call.request.method, result))


def list_page(core: ServerCore, call: ServerCall, params: PageParams) -> Outcome:
    """Return one page of tools, resources, templates or prompts."""
    if core.needs_keys(call.request.method, params.cursor):
        return functools.partial(_list_page_with_keys, core, call, params)
    terms = call.terms
    return core.list_page(call.request.method, terms.revision, params.cursor, terms.principal, terms.scopes)


async def _list_page_with_keys(core: ServerCore, call: ServerCall, params: PageParams) -> bytes:
    """Return one page with a cursor, after fetching the keys that sign cursors."""
    keys, terms = core.stored_keys, call.terms
    assert keys is not None
    await keys.prepare()
    page = functools.partial(core.list_page, call.request.method, terms.revision, params.cursor)
    try:
        return page(terms.principal, terms.scopes)
    except ProtocolError:
        if not await keys.look_again():  # the cursor may be signed with a key that was not there yet
            raise
        return page(terms.principal, terms.scopes)


def call_tool(core: ServerCore, call: ServerCall, params: CallToolParams) -> Outcome:
    """Call a tool."""
    tool = core.tools.get(params.name)
    if tool is None or (core.visible is not None and not core.shows(call.terms.principal, "tool", params.name)):
        hint = core.tools.suggestion(params.name)
        raise not_found_error(f"Unknown tool: {params.name}{hint}")
    if tool.scopes and not tool.allowed(call.terms.scopes):
        raise ProtocolError(INVALID_REQUEST, f"Insufficient scope: {tool.name} needs {' '.join(tool.scopes)}")
    if tool.task is not None or params.task is not None:
        work = _task_work(core, call, params, tool)
        if work is not None:
            return work
    handle = functools.partial(tool.invoke, arguments=params.arguments or {})
    if tool.binding.context_name is not None and call.terms.revision.server_requests == "rounds":
        # A call that counts against a limit is not kept while the user thinks: it runs again from its journal.
        return functools.partial(run_suspendable, core, call, params, handle, keep=tool.unlimited)
    return functools.partial(run_handler, core, call, params, handle)


def _task_work(core: ServerCore, call: ServerCall, params: CallToolParams, tool: RegisteredTool) -> Work | None:
    if tool.task is not None:
        from .tasks.methods import work_as_task

        return work_as_task(core, call, params, tool)
    if core.has_task_tools and call.terms.revision.tasks == "core":
        raise ProtocolError(METHOD_NOT_FOUND, f"The tool {tool.name} does not run as a task: call it without `task`")
    return None


def read_resource(core: ServerCore, call: ServerCall, params: ReadResourceParams) -> Outcome:
    """Read a resource."""
    match = core.find_resource(params.uri)
    if match is None or not core.shows(call.terms.principal, "resource", match[0].key):
        raise _no_resource(call, params.uri)
    resource, variables = match
    handle = functools.partial(resource.read, uri=params.uri, variables=variables)
    return _work(core, call, params, handle, resource.binding)


def get_prompt(core: ServerCore, call: ServerCall, params: GetPromptParams) -> Outcome:
    """Fill in a prompt."""
    prompt = core.prompts.get(params.name)
    if prompt is None or not core.shows(call.terms.principal, "prompt", params.name):
        hint = core.prompts.suggestion(params.name)
        raise not_found_error(f"Unknown prompt: {params.name}{hint}")
    handle = functools.partial(prompt.get, arguments=cast("dict[str, Any]", params.arguments or {}))
    return _work(core, call, params, handle, prompt.binding)


def _work(core: ServerCore, call: ServerCall, params: RetriedParams, handle: Handle, binding: Binding) -> Work:
    if binding.context_name is not None and call.terms.revision.server_requests == "rounds":
        # A plain function would hold its thread while the user thinks: it runs again from its journal.
        return functools.partial(run_suspendable, core, call, params, handle, keep=binding.is_async)
    return functools.partial(run_handler, core, call, params, handle)


async def run_handler(core: ServerCore, call: ServerCall, params: RetriedParams, handle: Handle) -> bytes:
    """Run a handler that asks nothing, or asks by requests of its own."""
    invocation = Invocation(core, call)
    if params.input_responses:
        from .features.url_elicitation import page_answer

        invocation.answers = page_answer(call.terms.revision, params.input_responses)
    result = await handle(invocation)
    if isinstance(result, InputRequired) and call.terms.revision.server_requests == "direct":
        result = await ask_between_runs(result, lambda: Invocation(core, call), handle)
    return result if isinstance(result, bytes) else core.encode_result(call, result)


async def run_suspendable(
    core: ServerCore, call: ServerCall, params: RetriedParams, handle: Handle, *, keep: bool = True
) -> bytes:
    """Run a handler that may be suspended at a question and resumed by a later request."""
    result = await core.suspended_calls.serve(core, call, params, handle, keep=keep)
    return result if isinstance(result, bytes) else core.encode_result(call, result)


def complete(core: ServerCore, call: ServerCall, params: CompleteParams) -> Outcome:
    """Suggest values for an argument."""
    if not core.completes:
        raise ProtocolError(METHOD_NOT_FOUND, "This server completes nothing")
    core.completions.admit(call.client_key or id(call.session))
    return functools.partial(_complete, core, call, params)


async def _complete(core: ServerCore, call: ServerCall, params: CompleteParams) -> bytes:
    from .features.completion import complete

    return core.encode_result(call, await complete(core, call, params))


def set_level(core: ServerCore, call: ServerCall, params: SetLevelParams) -> Outcome:
    """Set the minimum level of log messages of a session."""
    if call.session.log_level is None:
        raise ProtocolError(METHOD_NOT_FOUND, "This server logs nothing")
    call.session.log_level = params.level
    return codec.encode(call.terms.revision.emit_result("logging/setLevel", Result()))


def subscribe(core: ServerCore, call: ServerCall, params: SubscribeParams) -> Outcome:
    """Subscribe a session to updates of a resource (handshake era)."""
    _check_keeps_state(call)
    if not core.can_subscribe(params.uri, call.terms.principal):
        raise _no_resource(call, params.uri)
    call.session.subscriptions.add(params.uri)
    return codec.encode(call.terms.revision.emit_result("resources/subscribe", Result()))


def unsubscribe(core: ServerCore, call: ServerCall, params: SubscribeParams) -> Outcome:
    """End a session's subscription to a resource (handshake era)."""
    _check_keeps_state(call)
    call.session.subscriptions.remove(params.uri)
    return codec.encode(call.terms.revision.emit_result("resources/unsubscribe", Result()))


def listen(core: ServerCore, call: ServerCall, params: ListenParams) -> Outcome:
    """Open a subscription that lasts as long as its request (2026-07-28 subscriptions)."""
    accepted = core.accepted_filter(params.notifications, call.terms.principal)
    if core.has_task_tools and "taskIds" in params.notifications.extra:
        return functools.partial(_listen_to_tasks, core, call, params.notifications, accepted)

    async def work() -> bytes:
        return core.encode_result(call, await call.session.subscriptions.listen(call, accepted))

    return work


async def _listen_to_tasks(
    core: ServerCore, call: ServerCall, wanted: SubscriptionFilter, accepted: SubscriptionFilter
) -> bytes:
    """Serve a subscription that names tasks: their states follow the acknowledgement, and each change."""
    from .tasks.methods import accepted_tasks, push_tasks

    ids = await accepted_tasks(core, call, wanted)
    accepted.extra = {"taskIds": ids}
    listening = asyncio.ensure_future(call.session.subscriptions.listen(call, accepted))
    try:
        await asyncio.sleep(0)  # the acknowledgement is the first message
        end = await push_tasks(core, call, ids)
        try:
            return core.encode_result(call, await listening)
        finally:
            end()
    finally:
        listening.cancel()


def _late(name: str) -> Method:
    """A method of tasks, whose module is imported when it is first called."""

    def method(core: ServerCore, call: ServerCall, params: Any) -> Outcome:
        from .tasks import methods

        return getattr(methods, name)(core, call, params)

    return method


def _check_keeps_state(call: ServerCall) -> None:
    if not call.session.keeps_state:
        raise ProtocolError(METHOD_NOT_FOUND, f"{call.request.method} needs a session, and none are kept here")


def _no_resource(call: ServerCall, uri: str) -> ProtocolError:
    return not_found_error(f"Resource not found: {uri}", {"uri": uri}, call.terms.revision.not_found_code)


def _extension(core: ServerCore, call: ServerCall) -> Outcome:
    """Dispatch a method that an extension has added (versioning, "Extension Negotiation")."""
    method = call.request.method
    registered = core.extensions.requests.get(method)
    if registered is None:
        known = " on this revision" if method in (core.methods or METHODS) else ""
        raise ProtocolError(METHOD_NOT_FOUND, f"Method not found{known}: {method}")
    identifier, handler = registered
    if identifier not in (call.terms.capabilities.extensions or {}):
        if call.terms.revision.era == "handshake":
            raise ProtocolError(METHOD_NOT_FOUND, f"{method} needs the extension {identifier}")
        raise missing_extension(identifier, f"{method} needs the extension {identifier}")
    return functools.partial(_run_extension, core, call, handler)


async def _run_extension(core: ServerCore, call: ServerCall, handler: RequestHandler) -> bytes:
    from .context import Context

    result = await handler(call.request.params, Context(Invocation(core, call)))
    if call.terms.revision.result_type:
        result.setdefault("resultType", "complete")
    return codec.encode(result)


METHODS: dict[str, Method] = {
    "initialize": initialize,
    "ping": ping,
    "server/discover": discover,
    "tools/list": list_page,
    "tools/call": call_tool,
    "resources/list": list_page,
    "resources/templates/list": list_page,
    "resources/read": read_resource,
    "prompts/list": list_page,
    "prompts/get": get_prompt,
    "completion/complete": complete,
    "logging/setLevel": set_level,
    "resources/subscribe": subscribe,
    "resources/unsubscribe": unsubscribe,
    "subscriptions/listen": listen,
    "tasks/get": _late("get_task"),
    "tasks/result": _late("task_result"),
    "tasks/cancel": _late("cancel_task"),
    "tasks/list": _late("list_tasks"),
}
