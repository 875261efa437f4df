"""Calling a handler, and describing its failure: the same for tools, resources, prompts and completions."""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
from collections.abc import Callable
from types import TracebackType
from typing import Any

from dovetail.protocol.errors import (
    INTERNAL_ERROR,
    ConnectionLost,
    InvalidParams,
    LocalError,
    MissingCapability,
    NotFound,
    ProtocolError,
    URLElicitationRequired,
)
from dovetail.runtime.tracebacks import ExceptionInfo, handler_traceback, is_framework_file, wants_full_traceback
from dovetail.server.context import Context, RequestContext
from dovetail.server.invocation import Invocation
from dovetail.server.signatures.signature import Binding

logger = logging.getLogger("dovetail")


async def call_handler(
    function: Callable[..., Any],
    binding: Binding,
    values: dict[str, Any],
    invocation: Invocation,
    ended: Callable[[], None] | None = None,
) -> Any:
    """Run a handler: on the loop if it is a coroutine function, else in a thread of its client, which calls `ended`."""
    if binding.is_async:
        return await function(**values)
    share = (invocation.call.client_key, binding)
    try:
        value = await invocation.server.thread_pool.run(functools.partial(function, **values), ended, share)
    except asyncio.CancelledError:
        if invocation.bridge is not None:
            invocation.bridge.cancel()
        raise
    # A plain function may still return a coroutine, as decorators around one do.
    return await value if inspect.isawaitable(value) else value


def make_context(binding: Binding, invocation: Invocation) -> RequestContext:
    """The context for a handler that has declared one: for a plain function, one that works in a thread."""
    if binding.is_async:
        return Context(invocation)
    from dovetail.server.sync_context import SyncContext, ThreadContext

    return SyncContext(invocation) if binding.blocking_context else ThreadContext(invocation)


def describe_failure(problem: BaseException, invocation: Invocation, subject: str) -> str:
    """The failure of a handler in words for the caller; logs it, and raises what is an error of the protocol.

    `subject` names the handler in the log. A cancellation of the call itself is raised again; SystemExit and the like
    are failures of this call only.
    """
    call = invocation.call
    if isinstance(problem, ProtocolError):
        raise problem
    if isinstance(problem, NotFound | InvalidParams) and not problem.is_remote:
        raise call.terms.revision.refusal(call.request.method, call.request.params, problem) from problem
    if isinstance(problem, MissingCapability):
        if call.terms.revision.server_requests == "rounds":
            # 2026-07-28 basic, "_meta": a missing capability has an error code of its own there.
            raise problem.as_protocol_error() from problem
        return str(problem)
    if isinstance(problem, asyncio.CancelledError):
        if call.silent:
            raise problem
        logger.error("%s was cancelled by its own code", subject, exc_info=handler_traceback(problem))
        return "it was cancelled by its own code"
    call.problem = problem
    if isinstance(problem, ConnectionLost) and call.connection is not None and call.connection.gone is not None:
        # The handler waited for the client when the client went, which is no fault of the handler.
        logger.debug("%s ended: %s", subject, problem)
    else:
        logger.error("%s failed", subject, exc_info=_traceback(problem))
    return f"{type(problem).__name__}: {problem}"


def _traceback(problem: BaseException) -> ExceptionInfo:
    """The exception for the log; if the handler used this package wrongly, it ends at the handler's own line."""
    kind, problem, trace = handler_traceback(problem)
    if not isinstance(problem, LocalError) or wants_full_traceback():
        return kind, problem, trace
    frames: list[TracebackType] = []
    while trace is not None:
        frames.append(trace)
        trace = trace.tb_next
    while frames and is_framework_file(frames[-1].tb_frame.f_code.co_filename):
        frames.pop()
    for frame in reversed(frames):
        trace = TracebackType(trace, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return kind, problem, trace


async def run_handler(
    function: Callable[..., Any],
    binding: Binding,
    values: dict[str, Any],
    invocation: Invocation,
    subject: str,
) -> Any:
    """Run the handler of a resource, prompt or completion; its failure is −32603 on every revision."""
    if binding.context_name is not None:
        values[binding.context_name] = make_context(binding, invocation)
    try:
        try:
            return await call_handler(function, binding, values, invocation)
        except URLElicitationRequired as problem:
            from .url_elicitation import page_required

            return await page_required(problem, invocation)
    except BaseException as problem:
        text = describe_failure(problem, invocation, subject)
        raise ProtocolError(INTERNAL_ERROR, f"{subject} failed: {text}") from problem
