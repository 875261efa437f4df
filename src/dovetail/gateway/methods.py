"""Methods of a gateway: each is answered by the server that it concerns, in the revision of the client.

A handler here follows the rule for handlers that return their questions: on an `InputRequired` result the framework
asks the client, in rounds or directly, and runs the handler again with the answers, which go to the server with its own
state. A server of the handshake era asks during its call; then the handler waits, and the call stays in progress at the
server until the client has answered. It is sent once in either case.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgspec

from dovetail.protocol.bridge import can_be_asked
from dovetail.protocol.client_address import client_text
from dovetail.protocol.errors import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    ProtocolError,
    Refused,
    RemoteError,
)
from dovetail.runtime.serve import Outcome, Work
from dovetail.server.dispatch import METHODS as SERVER_METHODS
from dovetail.server.dispatch import Method, describe, negotiate, run_handler, run_suspendable
from dovetail.server.dispatch import set_level as set_server_level
from dovetail.server.invocation import Invocation
from dovetail.server.session import ServerCall
from dovetail.server.tasks.methods import work_as_task
from dovetail.text.tool_search import CALL
from dovetail.types.base import EmptyParams, PageParams, Result, RetriedParams
from dovetail.types.client_features import InputRequired
from dovetail.types.messages import CompleteParams, InitializeParams, ListenParams, PromptReference, SetLevelParams
from dovetail.types.tasks import TASKS_EXTENSION
from dovetail.wire import codec

from .accounts.account_upstream import ACCOUNT, CONNECT_ACCOUNT, connected_result, sign_in_tool
from .core import GatewayCore
from .errors import AccountNeeded
from .forward import ServerTask, forward
from .forwarded_tool import ForwardedTool
from .search_mode import answer_search, called_tool, is_finder
from .subscribing import subscribe_to, subscribe_to_all

if TYPE_CHECKING:
    from dovetail.types.prompts import GetPromptParams
    from dovetail.types.resources import ReadResourceParams, SubscribeParams
    from dovetail.types.serialization import Value
    from dovetail.types.tools import CallToolParams

    from .access_control.permissions import Permit
    from .servers.upstream import Upstream

LEVEL_SECONDS = 1.0
"""Seconds for which a client that sets the level of log messages waits for its servers."""

FoundT = TypeVar("FoundT", bound="tuple[Upstream, *tuple[Any, ...]]")
"""The server that a request concerns, and what it is there."""


def initialize(core: GatewayCore, call: ServerCall, params: InitializeParams) -> Outcome:
    """Negotiate the revision of a session; the first client waits a moment for the instructions of the servers."""
    answer = negotiate(core, call, params)

    async def work() -> bytes:
        agreed = call.session.lifecycle.terms or call.terms
        terms = msgspec.structs.replace(call.terms, revision=agreed.revision, capabilities=agreed.capabilities)
        # With the capabilities of the handshake, so that the session goes on to use the connections that this opens.
        known = ServerCall(call.request, terms, call.sink, call.connection, call.session)
        return answer(await core.instructions_for(known))

    return work


def discover(core: GatewayCore, call: ServerCall, params: EmptyParams) -> Outcome:
    """Describe the gateway to a client of the envelope era."""

    async def work() -> bytes:
        # Not public: a caller is told nothing of servers of which the rules allow it nothing.
        return describe(core, call, await core.instructions_for(call), "private")

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
    try:
        upstream, _ = await core.find_named(call, "tool", params.name)
    except AccountNeeded:
        return await work()  # which asks the user to log in
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


async def _find_tool(core: GatewayCore, params: CallToolParams, invocation: Invocation) -> Value | bytes:
    """Search, describe or call a tool, where a client gets these three in place of all tools."""
    catalogue = await core.catalogue(invocation.call)
    if params.name != CALL or not core.is_searched(invocation.call, catalogue):
        # All servers are asked, also those that do not answer; to call one of them, that is not waited for.
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
    subject = core.subject("tool", upstream.key, tool.name, tool)
    async with core.access.finishing(invocation, subject) as permit:
        result = await forward(core, upstream, invocation, {}, name, tool, created=created)
        assert not isinstance(result, ServerTask)
        return permit.note(result)


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
    find = functools.partial(core.find_named, invocation.call, "tool", name)
    found = await _find(core, invocation, find)
    if isinstance(found, InputRequired):
        return found
    upstream, tool = found
    if tool is sign_in_tool(upstream.key):
        return await _connect_account(core, upstream, invocation)
    subject = core.subject("tool", upstream.key, tool.name, tool)
    replaced: dict[str, Any] = {"name": tool.name} if arguments is None else {"name": tool.name, "arguments": arguments}
    given = arguments_of(invocation) if arguments is None else arguments
    async with core.access.permitted(invocation, subject, given) as permit:
        await _check_unchanged(permit, find, found)
        result = await forward(core, upstream, invocation, replaced, name, tool, hands_over=hands_over)
        if not isinstance(result, ServerTask):
            return permit.note(result)
    raise _BecameTask(result.created)


def get_prompt(core: GatewayCore, call: ServerCall, params: GetPromptParams) -> Outcome:
    """Get a prompt from its server."""
    return _forward(core, call, params, functools.partial(_get_prompt, core, params.name))


async def _get_prompt(core: GatewayCore, name: str, invocation: Invocation) -> Value | bytes:
    find = functools.partial(core.find_named, invocation.call, "prompt", name)
    found = await _find(core, invocation, find)
    if isinstance(found, InputRequired):
        return found
    upstream, prompt = found
    subject = core.subject("prompt", upstream.key, prompt.name, prompt)
    async with core.access.permitted(invocation, subject, arguments_of(invocation)) as permit:
        await _check_unchanged(permit, find, found)
        return permit.note(await forward(core, upstream, invocation, {"name": prompt.name}, name, prompt))


def read_resource(core: GatewayCore, call: ServerCall, params: ReadResourceParams) -> Outcome:
    """Read a resource at its server."""
    return _forward(core, call, params, functools.partial(_read_resource, core, params.uri))


async def _read_resource(core: GatewayCore, uri: str, invocation: Invocation) -> Value | bytes:
    find = functools.partial(core.find_uri, invocation.call, uri)
    found = await _find(core, invocation, find)
    if isinstance(found, InputRequired):
        return found
    upstream, own_uri, _ = found
    async with core.access.permitted(invocation, core.subject("resource", upstream.key, own_uri), {}) as permit:
        await _check_unchanged(permit, find, found)
        return permit.note(await forward(core, upstream, invocation, {"uri": own_uri}, ""))


async def _find(
    core: GatewayCore, invocation: Invocation, find: Callable[[], Awaitable[FoundT]]
) -> FoundT | InputRequired:
    """Find the server that a request concerns; a user who needs an account there is asked to log in first."""
    try:
        found = await find()
        if ACCOUNT not in invocation.answers:
            return found
        upstream = found[0]
    except AccountNeeded as needed:
        await core.access.admit_login(invocation.call, core.subject("tool", needed.server, CONNECT_ACCOUNT))
        upstream = core.upstreams[needed.server].of(invocation.call)
    question = await upstream.sign_in(invocation)
    if question is not None:
        return question
    core.forget_listings()
    return await find()


async def _check_unchanged(permit: Permit, find: Callable[[], Awaitable[FoundT]], found: FoundT) -> None:
    """After a user was asked: find once more, which raises for what is held back or gone, and compare."""
    if not permit.waited:
        return
    again = await find()
    if again[:2] != found[:2]:
        raise ProtocolError(INVALID_REQUEST, "It has changed since it was approved. Send the request again")


async def _connect_account(core: GatewayCore, upstream: Upstream, invocation: Invocation) -> Value:
    """Connect the account of the caller at a server, as the tool for that does."""
    await core.access.admit_login(invocation.call, core.subject("tool", upstream.key, CONNECT_ACCOUNT))
    question = await upstream.sign_in(invocation)
    if question is not None:
        return question
    core.forget_listings()
    return connected_result(upstream.key)


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


def complete(core: GatewayCore, call: ServerCall, params: CompleteParams) -> Outcome:
    """Suggest values for an argument, by asking the server of the prompt or template."""
    core.completions.admit(call.client_key or id(call.session))
    return functools.partial(_complete, core, call, params)


async def _complete(core: GatewayCore, call: ServerCall, params: CompleteParams) -> bytes:
    reference = params.ref
    given = cast("dict[str, Any]", call.request.params["ref"])
    if isinstance(reference, PromptReference):
        upstream, prompt = await core.find_named(call, "prompt", reference.name)
        await core.access.refuse_denied(call, core.subject("prompt", upstream.key, prompt.name, prompt))
        changed = {**given, "name": prompt.name}
    else:
        upstream, uri, _ = await core.find_uri(call, reference.uri)
        await core.access.refuse_denied(call, core.subject("resource", upstream.key, uri))
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
        connections = [one for upstream in core.upstreams.values() for one in upstream.connections_of(call.session)]
        # A server that does not answer delays neither the others nor the client: the next request to it says so.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LEVEL_SECONDS):
                sending = (one.use_log_level(params.level) for one in connections)
                await asyncio.gather(*sending, return_exceptions=True)
        assert isinstance(answer, bytes)
        return answer

    return work


def subscribe(core: GatewayCore, call: ServerCall, params: SubscribeParams) -> Outcome:
    """Subscribe a session to updates of a resource, at its server."""

    async def work() -> bytes:
        if not call.session.keeps_state:
            raise ProtocolError(METHOD_NOT_FOUND, f"{call.request.method} needs a session, and none are kept here")
        result = await subscribe_at_server(core, call, params.uri)
        call.session.subscriptions.add(params.uri)
        return result

    return work


async def subscribe_at_server(core: GatewayCore, call: ServerCall, uri: str) -> bytes:
    """Subscribe a session at the server of a resource, over its connection, wherever that is."""
    return await _at_home(core, call, core.upstreams_at(uri), functools.partial(_subscribe_here, core, call, uri))


async def _subscribe_here(core: GatewayCore, call: ServerCall, uri: str) -> bytes:
    await subscribe_to(core, call, uri)
    return _empty_result(call)


def unsubscribe(core: GatewayCore, call: ServerCall, params: SubscribeParams) -> Outcome:
    """End a session's subscription to a resource."""

    async def work() -> bytes:
        call.session.subscriptions.remove(params.uri)
        unsubscribe_here = functools.partial(_unsubscribe_here, core, call, params.uri)
        return await _at_home(core, call, core.upstreams_at(params.uri), unsubscribe_here)

    return work


async def _unsubscribe_here(core: GatewayCore, call: ServerCall, uri: str) -> bytes:
    core.unsubscribe(call.session, uri)
    return _empty_result(call)


def _empty_result(call: ServerCall) -> bytes:
    return codec.encode(call.terms.revision.emit_result(call.request.method, Result()))


def listen(core: GatewayCore, call: ServerCall, params: ListenParams) -> Outcome:
    """Open a subscription that lasts as long as its request (2026-07-28 subscriptions)."""

    async def work() -> bytes:
        session, wanted = call.session, params.notifications
        request = call.request.id
        uris = core.accepted_filter(wanted, call.terms.principal).resource_subscriptions or []
        try:
            # The acknowledgement says which were accepted.
            wanted.resource_subscriptions = await subscribe_to_all(core, call, uris) or None
            listening = SERVER_METHODS["subscriptions/listen"](core, call, params)
            assert listening is not None
            assert not isinstance(listening, bytes)
            return await listening()
        finally:
            for uri in uris:
                core.unsubscribe(session, uri, request)

    return work


Concerned = Callable[[GatewayCore, Any], list["Upstream"]]
"""The servers that a request may concern, by its params."""


def _all_servers(core: GatewayCore, params: object) -> list[Upstream]:
    return list(core.upstreams.values())


def _by_tool(core: GatewayCore, params: CallToolParams) -> list[Upstream]:
    if not is_finder(params.name):
        return core.upstreams_named(params.name)
    name = (params.arguments or {}).get("name")
    return core.upstreams_named(name) if params.name == CALL and isinstance(name, str) else _all_servers(core, params)


def _by_name(core: GatewayCore, params: GetPromptParams) -> list[Upstream]:
    return core.upstreams_named(params.name)


def _by_uri(core: GatewayCore, params: ReadResourceParams) -> list[Upstream]:
    return core.upstreams_at(params.uri)


def _by_reference(core: GatewayCore, params: CompleteParams) -> list[Upstream]:
    reference = params.ref
    if isinstance(reference, PromptReference):
        return core.upstreams_named(reference.name)
    return core.upstreams_at(reference.uri)


def _at_home(core: GatewayCore, call: ServerCall, servers: list[Upstream], work: Work) -> Awaitable[bytes]:
    """Do the work of a request where the connections of its client are."""
    return work() if core.homes is None else core.homes.serve(call, servers, work)


def _served_at_home(method: Callable[[GatewayCore, ServerCall, Any], Outcome], concerned: Concerned) -> Method:
    """A method whose requests are served where the connections of their client are."""

    def serve(core: GatewayCore, call: ServerCall, params: Any) -> Outcome:
        outcome = method(core, call, params)
        if core.homes is None or outcome is None or isinstance(outcome, bytes):
            return outcome
        return functools.partial(core.homes.serve, call, concerned(core, params), outcome)

    return cast(Method, serve)


_BY_SERVER: dict[str, tuple[Callable[[GatewayCore, ServerCall, Any], Outcome], Concerned]] = {
    "server/discover": (discover, _all_servers),
    "tools/list": (list_page, _all_servers),
    "tools/call": (call_tool, _by_tool),
    "resources/list": (list_page, _all_servers),
    "resources/templates/list": (list_page, _all_servers),
    "resources/read": (read_resource, _by_uri),
    "prompts/list": (list_page, _all_servers),
    "prompts/get": (get_prompt, _by_name),
    "completion/complete": (complete, _by_reference),
}
"""Methods that servers answer, and which servers those may be."""

METHODS: dict[str, Method] = {
    **SERVER_METHODS,
    **{name: _served_at_home(method, concerned) for name, (method, concerned) in _BY_SERVER.items()},
    "initialize": cast(Method, initialize),
    "logging/setLevel": cast(Method, set_level),
    "resources/subscribe": cast(Method, subscribe),
    "resources/unsubscribe": cast(Method, unsubscribe),
    "subscriptions/listen": cast(Method, listen),
}

AT_HOME: dict[str, Callable[[GatewayCore, ServerCall, Any], Outcome]] = {
    **{name: method for name, (method, _) in _BY_SERVER.items()},
    "resources/subscribe": lambda core, call, params: functools.partial(_subscribe_here, core, call, params.uri),
    "resources/unsubscribe": lambda core, call, params: functools.partial(_unsubscribe_here, core, call, params.uri),
}
"""The same for requests that another gateway has passed on."""
