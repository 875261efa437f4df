"""Calling a handler, and describing its failure: the same for tools, resources, prompts and completions."""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
from collections.abc import Callable
from typing import Any

from dovetail.protocol.errors import INTERNAL_ERROR, MissingCapability, ProtocolError, URLElicitationRequired
from dovetail.runtime.thread_pool import ThreadPool
from dovetail.server.context import Context
from dovetail.server.invocation import Invocation
from dovetail.server.signatures.signature import Binding

logger = logging.getLogger("dovetail")


async def call_handler(
    function: Callable[..., Any],
    binding: Binding,
    thread_pool: ThreadPool,
    values: dict[str, Any],
    ended: Callable[[], None] | None = None,
) -> Any:
    """Run a handler: on the loop if it is a coroutine function, else in a thread, which calls `ended`."""
    if binding.is_async:
        return await function(**values)
    value = await thread_pool.run(functools.partial(function, **values), ended)
    # A plain function may still return a coroutine, as decorators around one do.
    return await value if inspect.isawaitable(value) else value


def add_context(binding: Binding, values: dict[str, Any], invocation: Invocation) -> None:
    """Give the handler its `Context`, if it has declared a parameter for it."""
    if binding.context_name is not None:
        values[binding.context_name] = Context(invocation)


def describe_failure(problem: BaseException, invocation: Invocation, subject: str) -> str:
    """The failure of a handler in words for the caller; logs it, and raises what is an error of the protocol.

    `subject` names the handler in the log. A cancellation of the call itself is raised again; SystemExit and the like
    are failures of this call only.
    """
    call = invocation.call
    if isinstance(problem, ProtocolError):
        raise problem
    if isinstance(problem, MissingCapability):
        if call.terms.revision.server_requests == "rounds":
            # 2026-07-28 basic, "_meta": a missing capability has an error code of its own there.
            raise problem.as_protocol_error() from problem
        return str(problem)
    if isinstance(problem, asyncio.CancelledError):
        if call.silent:
            raise problem
        logger.error("%s was cancelled by its own code", subject, exc_info=problem)
        return "it was cancelled by its own code"
    call.problem = problem
    logger.error("%s failed", subject, exc_info=problem)
    return f"{type(problem).__name__}: {problem}"


async def run_handler(
    function: Callable[..., Any],
    binding: Binding,
    values: dict[str, Any],
    invocation: Invocation,
    subject: str,
) -> Any:
    """Run the handler of a resource, prompt or completion; its failure is −32603 on every revision."""
    add_context(binding, values, invocation)
    try:
        try:
            return await call_handler(function, binding, invocation.server.thread_pool, values)
        except URLElicitationRequired as problem:
            from .url_elicitation import page_required

            return page_required(problem, invocation)
    except BaseException as problem:
        text = describe_failure(problem, invocation, subject)
        raise ProtocolError(INTERNAL_ERROR, f"{subject} failed: {text}") from problem
