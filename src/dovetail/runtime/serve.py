"""Serving one request: from the dispatcher's result, or its error, to the encoded answer.

Every request of every transport passes here. `begin` dispatches; what is ready at once is the answer. `serve` awaits
what takes longer, in whichever task the transport has for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeAlias, TypeVar

from dovetail.protocol.errors import INTERNAL_ERROR, InvalidParams, NotFound, ProtocolError
from dovetail.storage.contract import StoreError
from dovetail.wire import codec

from .call import Call

logger = logging.getLogger("dovetail")

STORE_FAILED = "The store of the server does not work now; try again"

Work: TypeAlias = "Callable[[], Awaitable[bytes]]"
"""Produces the result as JSON bytes. Not a coroutine: one that is cancelled before it starts would warn."""

Outcome: TypeAlias = "bytes | Work | None"
"""A result that is ready, the work that leads to it, or None where the revision forbids an answer."""

CallT = TypeVar("CallT", bound=Call)


def begin(call: CallT, dispatch: Callable[[CallT], Outcome]) -> Outcome:
    """Dispatch a request: its encoded answer where that is ready at once, else the work that `serve` has to do."""
    try:
        result = dispatch(call)
    except Exception as problem:
        return encode_error(call, as_protocol_error(call, problem))
    return codec.response(call.request.id, result) if isinstance(result, bytes) else result


async def serve(call: Call, work: Work) -> bytes | None:
    """Do the work of a request and encode its answer; None if the call was cancelled meanwhile."""
    try:
        if call.sink.congested:
            # Answers for a peer that does not read would pile up.
            await call.sink.drained()
        return codec.response(call.request.id, await work())
    except asyncio.CancelledError:
        if call.silent:
            return None
        logger.exception("%s was cancelled by its own handler", call.request.method)
    except BaseException as problem:
        # Also SystemExit and KeyboardInterrupt: a handler must not be able to end the process.
        return encode_error(call, as_protocol_error(call, problem))
    return encode_error(call, internal_error())


def as_protocol_error(call: Call, problem: BaseException) -> ProtocolError:
    """Any exception as the error for the peer: what was raised for it, else an internal error, which is logged."""
    if isinstance(problem, ProtocolError):
        return problem
    if isinstance(problem, StoreError):
        # What needed the store has not happened. Over HTTP the status says that the peer may try again.
        logger.error("Serving %s failed: %s", call.request.method, problem)
        call.problem = problem
        return ProtocolError(INTERNAL_ERROR, STORE_FAILED)
    if isinstance(problem, NotFound | InvalidParams) and not problem.is_remote:
        request = call.request
        return call.terms.revision.refusal(request.method, request.params, problem)
    logger.error("Serving %s failed", call.request.method, exc_info=problem)
    return internal_error()


def encode_error(call: Call, error: ProtocolError) -> bytes:
    """An error as the answer to a request, with a code that its revision has."""
    call.error_code = call.terms.revision.code_of(error.code)
    return codec.failure(call.request.id, call.error_code, error.message, error.data, null_id=False)


def internal_error() -> ProtocolError:
    """The error of a request that failed for a reason that is not the peer's business."""
    return ProtocolError(INTERNAL_ERROR, "Internal error")
