"""Requests on their way through middleware: those that come in on a connection, and those that go out on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from dovetail.protocol.envelope import PROGRESS_TOKEN
from dovetail.types.capabilities import Implementation
from dovetail.wire import codec
from dovetail.wire.jsonrpc import Request

from .call import Call
from .connection import Work
from .middleware import Chain, Exchange, Role, as_object, refuse_other_method
from .pending import OnProgress, Patience

_decode = msgspec.json.Decoder(dict[str, Any]).decode


def pass_in(
    chain: Chain,
    role: Role,
    peer: Implementation | None,
    call: Call,
    serve: Callable[[Call], bytes | Work | None],
    *,
    answer: bytes | None = None,
) -> Work:
    """The work that takes a request through the chain to whoever serves it, and its result back.

    A request that had to be answered at once, because others depend on it, brings its answer along.
    """
    request, terms = call.request, call.terms

    async def last(exchange: Exchange) -> dict[str, Any]:
        refuse_other_method(exchange, request.method)
        if answer is not None:
            return _decode(answer)
        call.request = Request(request.id, request.method, exchange.params)
        call.problem = None
        try:
            outcome = serve(call)
            assert outcome is not None  # whoever may not answer is not wrapped
            encoded = outcome if isinstance(outcome, bytes) else await outcome()
        finally:
            exchange.problem = call.problem
        return _decode(encoded)

    async def work() -> bytes:
        exchange = Exchange(
            role,
            "in",
            request.method,
            dict(request.params),
            terms.revision,
            id=request.id,
            peer=peer,
            principal=terms.principal,
        )
        return codec.encode(await chain.run(exchange, last))

    return work


async def pass_out(
    chain: Chain,
    role: Role,
    call: Call,
    method: str,
    params: dict[str, Any],
    timeout: float | None,
    progress: OnProgress | None,
) -> dict[str, Any]:
    """Send the peer a request, while one of its own is being served, through the chain."""
    pending, terms = call.connection.pending, call.terms

    async def last(exchange: Exchange) -> dict[str, Any]:
        refuse_other_method(exchange, method)
        id = exchange.id = pending.take_id()
        body = exchange.params
        if progress is not None:
            body = {**body, "_meta": {**exchange.meta, PROGRESS_TOKEN: id}}
        encoded = codec.encode(body) if body else None
        raw = await pending.request(
            method, encoded, Patience(timeout), id=id, on_progress=progress, outlet=call.outlet
        )
        return as_object(method, raw)

    exchange = Exchange(role, "out", method, params, terms.revision, peer=terms.client, principal=terms.principal)
    return await chain.run(exchange, last)
