"""Forwarding of requests: one is sent to the server that it concerns, and its result translated for the client.

A call is sent once. It is sent again only where the server itself has asked for that, with questions or a state.
"""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from dovetail.auth.errors import LoginNeeded
from dovetail.middleware.telemetry import trace_context
from dovetail.protocol.bridge import (
    forwarded_meta,
    outcome_of,
    retry_params,
    rewrite_uris,
    translate_error,
    translate_result,
)
from dovetail.protocol.envelope import LOG_LEVEL, PROGRESS_TOKEN, meta_of
from dovetail.protocol.errors import (
    INTERNAL_ERROR,
    URL_ELICITATION_REQUIRED,
    InvalidAnswer,
    ProtocolError,
    RemoteError,
    URLElicitationRequired,
    outcome_unknown,
)
from dovetail.protocol.mrtr import MAX_ROUNDS
from dovetail.protocol.revisions.wrapping import is_object_schema
from dovetail.server.features.logging import wanted_level
from dovetail.server.features.url_elicitation import COMPLETE, page_required
from dovetail.types.client_features import ElicitRequest, InputRequest, InputRequired
from dovetail.types.serialization import dump, load
from dovetail.types.tools import CallToolResult, Tool

from .accounts.account_upstream import ACCOUNT
from .forwarded_tool import requires_task
from .server_request import ServerRequest

if TYPE_CHECKING:
    from dovetail.protocol.revisions.revision import Revision
    from dovetail.server.invocation import Invocation
    from dovetail.types.prompts import Prompt
    from dovetail.types.serialization import Value

    from .core import GatewayCore
    from .servers.connection import UpstreamConnection
    from .servers.upstream import Upstream

Rewrite = Callable[[str], str]
"""Gives a URI of the server the form in which clients know it."""

_ENDED = (
    "the gateway process that held this call while it waited for an answer has ended. The call was sent to the server "
    "before that, and is not sent again"
)

_POLL_SECONDS = (0.0, 0.1, 0.2, 0.5, 1.0)
"""Pauses before a request is repeated that its server has answered with a state and no question."""


class ServerTask(NamedTuple):
    """The answer to a call that is a task of the server."""

    created: bytes


async def forward(
    core: GatewayCore,
    upstream: Upstream,
    invocation: Invocation,
    replaced: Mapping[str, Any],
    label: str,
    definition: Tool | Prompt | None = None,
    *,
    hands_over: bool = False,
    created: bytes | None = None,
) -> Any:
    """Send the request of an invocation to a server, with some params replaced; its result for the client.

    `definition` is that which was decided on. With `hands_over`, a `ServerTask` may result. `created` is its answer.
    """
    call = invocation.call
    method, revision = call.request.method, call.terms.revision
    with ServerRequest(upstream, core.metrics, method, label) as request:
        try:
            async with upstream.leased(call, lambda: _give_up(core, invocation)) as connection:
                request.connection = connection
                if invocation.is_replaying:
                    raise outcome_unknown(_ENDED)
                with connection.relayed.serving(invocation):
                    params = _forwarded_params(invocation, replaced, connection.revision)
                    rewrite = await core.uri_rewriter(call, upstream.key)
                    if created is None or not isinstance(definition, Tool):
                        sent = _exchange(upstream, connection, invocation, params, rewrite, definition, hands_over)
                    else:
                        sent = _finish(connection, invocation, rewrite, definition, created)
                    result = await sent
            request.is_answered = True
            return result
        except RemoteError as problem:
            upstream.answered()
            if problem.code == URL_ELICITATION_REQUIRED and COMPLETE not in revision.methods:
                return await _require_page(problem, invocation)
            raise translate_error(problem, method, revision) from problem
        except LoginNeeded:
            # The server has refused the account before it did anything.
            return await upstream.require_login(invocation)


def _give_up(core: GatewayCore, invocation: Invocation) -> None:
    """Cancel a call that waits for its client, because that client has too many of them."""
    if invocation.suspendable is not None:
        core.suspended_calls.give_up(invocation.suspendable)


_OF_ONE_HOP = frozenset({"_meta", "inputResponses", "requestState", "task"})
"""Params that are written anew for each hop."""


def _forwarded_params(invocation: Invocation, replaced: Mapping[str, Any], source: Revision) -> dict[str, Any]:
    """The params of a request to a server of some revision."""
    params = {key: value for key, value in invocation.call.request.params.items() if key not in _OF_ONE_HOP}
    params.update(replaced)
    if source.server_requests == "rounds":
        # The answer to a question of the gateway itself is not for the server.
        answers = {key: answer for key, answer in invocation.answers.items() if key != ACCOUNT}
        params.update(retry_params(answers, invocation.request_state, source))
    return params


async def _exchange(
    upstream: Upstream,
    connection: UpstreamConnection,
    invocation: Invocation,
    params: dict[str, Any],
    rewrite: Rewrite,
    definition: Tool | Prompt | None,
    hands_over: bool,
) -> Value | bytes | ServerTask:
    """Send a request and translate its result; one that is to be repeated later, without any question, is repeated."""
    call, tool = invocation.call, definition if isinstance(definition, Tool) else None
    method, revision, source = call.request.method, call.terms.revision, connection.revision
    # The connection may have been opened only now, or again, after the request was decided on.
    await upstream.check_definition(connection, definition)
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

    adapt = None if tool is None else functools.partial(_wrap, tool)
    if tool is not None and source.tasks == "core" and requires_task(tool):
        params["task"] = {}

    if connection.relayed.roots_missed:
        # It asked when there was nobody to ask; now there is.
        connection.relayed.roots_missed = False
        connection.notify_roots_changed()
    for polled in range(MAX_ROUNDS):
        raw = await connection.forward(method, params, meta, progress)
        upstream.answered()
        if tool is not None and ("task" in params or outcome_of(method, raw) == "task"):
            is_task = hands_over and "task" not in params
            finish = functools.partial(_finish, connection, invocation, rewrite, tool)
            return ServerTask(raw) if is_task else await finish(raw)
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
    connection: UpstreamConnection,
    invocation: Invocation,
    rewrite: Rewrite,
    tool: Tool,
    created: bytes,
) -> Value:
    """Wait for the task that a call was answered with."""
    result = await connection.finish_task(tool.name, created, functools.partial(_report_progress, invocation))
    return _adapted(tool, result, rewrite)


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


def _adapted(tool: Tool, result: CallToolResult[Any], rewrite: Rewrite) -> Value:
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
