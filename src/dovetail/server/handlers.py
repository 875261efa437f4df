"""Calling a handler, whatever it is and whatever it does."""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
from collections.abc import Callable
from typing import Any

from dovetail.protocol.errors import INTERNAL_ERROR, ProtocolError
from dovetail.runtime.call import Call
from dovetail.runtime.workers import Workers

from .signatures.signature import Binding

logger = logging.getLogger("dovetail")


async def call_handler(
    function: Callable[..., Any],
    binding: Binding,
    workers: Workers,
    values: dict[str, Any],
    ended: Callable[[], None] | None = None,
) -> Any:
    """Run a handler: on the loop if it is a coroutine function, else in a thread (which tells `ended`)."""
    if binding.is_async:
        return await function(**values)
    value = await workers.run(functools.partial(function, **values), ended)
    # A plain function may still give a coroutine, as decorators around one do.
    return await value if inspect.isawaitable(value) else value


async def run_handler(
    function: Callable[..., Any],
    binding: Binding,
    workers: Workers,
    values: dict[str, Any],
    call: Call,
    doing: str,
) -> Any:
    """The same for a resource or prompt; a crash is −32603 on every revision and hurts only this call."""
    try:
        return await call_handler(function, binding, workers, values)
    except ProtocolError:
        raise
    except asyncio.CancelledError:
        if call.silent:
            raise
        logger.exception("%s was cancelled by its own code", doing)
        raise ProtocolError(INTERNAL_ERROR, f"{doing} failed: it was cancelled by its own code") from None
    except BaseException as problem:
        logger.exception("%s failed", doing)
        raise ProtocolError(
            INTERNAL_ERROR, f"{doing} failed: {type(problem).__name__}: {problem}"
        ) from problem
