"""Subscribing at servers: requests of clients that subscribe to resources, and what the servers answer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dovetail.protocol.errors import (
    METHOD_NOT_FOUND,
    InvalidParams,
    ProtocolError,
    RemoteError,
    not_found_error,
)

from .server_request import ServerRequest
from .servers.resource_subscriptions import Subscriber

if TYPE_CHECKING:
    from dovetail.server.session import ServerCall

    from .core import GatewayCore
    from .servers.connection import UpstreamConnection
    from .servers.upstream import Upstream

MAX_AT_ONCE = 16
"""Subscriptions of one request that are made at the same time."""


async def subscribe_to_all(core: GatewayCore, call: ServerCall, uris: Sequence[str]) -> list[str]:
    """Subscribe a session to resources for as long as a request; those that were accepted."""
    slots = asyncio.Semaphore(MAX_AT_ONCE)

    async def is_accepted(uri: str) -> bool:
        async with slots:
            try:
                await subscribe_to(core, call, uri, lasting=False)
            except ProtocolError:
                return False
            return True

    accepted = await asyncio.gather(*map(is_accepted, uris))
    return [uri for uri, is_one in zip(uris, accepted, strict=True) if is_one]


async def subscribe_to(core: GatewayCore, call: ServerCall, uri: str, *, lasting: bool = True) -> None:
    """Subscribe a session to a resource at its server, until it is ended, or else for as long as the request."""
    subscriber = Subscriber(call.session, uri, None if lasting else call.request.id)
    upstream, own_uri, _ = await core.find_uri(call, uri)
    await core.access.refuse_denied(call, core.subject("resource", upstream.key, own_uri))
    connection = await upstream.connection(call)
    has = connection.server_capabilities.resources
    if has is None or not has.subscribe:
        raise ProtocolError(METHOD_NOT_FOUND, f"The server {upstream.key!r} offers no subscriptions")
    core.update_filter.note_subscription(call.session, upstream.key)
    await _subscribe_over(connection, core, call, upstream, own_uri, subscriber)


async def _subscribe_over(
    connection: UpstreamConnection,
    core: GatewayCore,
    call: ServerCall,
    upstream: Upstream,
    own_uri: str,
    subscriber: Subscriber,
) -> None:
    with ServerRequest(upstream, core.metrics, call.request.method, "") as request:
        request.connection = connection
        try:
            await connection.subscribe(own_uri, [subscriber])
        except RemoteError as problem:
            upstream.answered()
            if isinstance(problem, InvalidParams):
                raise not_found_error(problem.message, problem.data, call.terms.revision.not_found_code) from problem
            raise ProtocolError(problem.code, problem.message, problem.data) from problem
        upstream.answered()
        request.is_answered = True
