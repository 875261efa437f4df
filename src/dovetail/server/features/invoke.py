"""Calling a handler, whatever it is and whatever it does."""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dovetail.protocol.errors import INTERNAL_ERROR, MissingCapability, ProtocolError, URLElicitationRequired
from dovetail.protocol.revisions.revision import Revision
from dovetail.runtime.call import Call
from dovetail.runtime.thread_pool import ThreadPool
from dovetail.server.signatures.signature import Binding
from dovetail.types.client_features import InputRequired

if TYPE_CHECKING:
    from dovetail.server.context import Context

logger = logging.getLogger("dovetail")


async def call_handler(
    function: Callable[..., Any],
    binding: Binding,
    workers: ThreadPool,
    values: dict[str, Any],
    ended: Callable[[], None] | None = None,
) -> Any:
    """Run a handler: on the loop if it is a coroutine function, else in a thread (which tells `ended`)."""
    if binding.is_async:
        return await function(**values)
    value = await workers.run(functools.partial(function, **values), ended)
    # A plain function may still give a coroutine, as decorators around one do.
    return await value if inspect.isawaitable(value) else value


def missing(problem: MissingCapability, revision: Revision) -> None:
    """Raise −32021 where the revision has it (2026-07-28 basic, "_meta"); elsewhere the handler just failed."""
    if revision.server_requests == "rounds":
        raise problem.as_protocol_error() from problem


def required(problem: URLElicitationRequired, context: Context, call: Call) -> InputRequired:
    """Ask for the page that a handler needs to be visited."""
    from .url_elicitation import page_required

    return page_required(problem, context, call)


async def run_handler(
    function: Callable[..., Any],
    binding: Binding,
    workers: ThreadPool,
    values: dict[str, Any],
    call: Call,
    doing: str,
    context: Context,
) -> Any:
    """The same for a resource or prompt; a crash is −32603 on every revision and hurts only this call."""
    try:
        try:
            return await call_handler(function, binding, workers, values)
        except URLElicitationRequired as problem:
            return required(problem, context, call)
    except ProtocolError:
        raise
    except MissingCapability as problem:
        missing(problem, call.terms.revision)
        raise ProtocolError(INTERNAL_ERROR, f"{doing} failed: {problem}") from problem
    except asyncio.CancelledError:
        if call.silent:
            raise
        logger.exception("%s was cancelled by its own code", doing)
        raise ProtocolError(INTERNAL_ERROR, f"{doing} failed: it was cancelled by its own code") from None
    except BaseException as problem:
        context.failed(problem)
        logger.exception("%s failed", doing)
        raise ProtocolError(INTERNAL_ERROR, f"{doing} failed: {type(problem).__name__}: {problem}") from problem
