"""Pipeline of a request on a client with middleware or a cache: cache, then middleware, then the server."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable
from typing import Any, Protocol

from dovetail.runtime.middleware import Chain, Exchange, as_object, refuse_other_method
from dovetail.runtime.pending_requests import OnProgress
from dovetail.wire.jsonrpc import Id

from .cache import ResultCache
from .subscriptions import hold_subscription, wanted_changes
from .supervisor import Supervisor


class SendParams(Protocol):
    """Sends a request with these params, under a new id unless one is given."""

    def __call__(self, body: dict[str, Any], *, id: Id | None = None) -> Awaitable[Any]:
        """The result."""
        ...


class Pipeline:
    """The steps of one request."""

    def __init__(
        self,
        supervisor: Supervisor,
        meta: dict[str, Any] | None,
        middleware: Chain | None,
        cache: ResultCache | None,
    ) -> None:
        self._supervisor = supervisor
        self._meta = meta
        self._middleware = middleware
        self._cache = cache

    async def request(self, method: str, body: dict[str, Any], progress: OnProgress | None, send: SendParams) -> Any:
        """The result, from the cache or from the server."""
        cache = self._cache
        if cache is None or progress is not None or method not in self._supervisor.agreement.revision.cacheable:
            return await self._through_middleware(method, body, send)
        loop = asyncio.get_running_loop()
        if (cached := cache.get(method, body, loop.time())) is not None:
            return cached
        generation = cache.generation(method)
        result = await self._through_middleware(method, body, send)
        if cache.store(method, body, result, loop.time(), generation):
            self._subscribe(cache)
        return result

    async def _through_middleware(self, method: str, body: dict[str, Any], send: SendParams) -> Any:
        chain = self._middleware
        if chain is None or not chain.wraps(method):
            return await send(body)

        async def last(exchange: Exchange) -> dict[str, Any]:
            refuse_other_method(exchange, method)
            id = exchange.id = self._supervisor.connection.pending.next_id()
            return as_object(method, await send(exchange.params, id=id))

        agreement = self._supervisor.agreement
        exchange = Exchange("client", "out", method, body, agreement.revision, peer=agreement.server)
        return await chain.run(exchange, last)

    def _subscribe(self, cache: ResultCache) -> None:
        """Subscribe to list changes in the envelope era; in the handshake era they come by themselves."""
        has = self._supervisor.agreement.capabilities
        offered = {"tools": has.tools, "prompts": has.prompts, "resources": has.resources}
        kinds = [kind for kind, capability in offered.items() if capability is not None and capability.list_changed]
        if self._meta is not None and kinds:
            cache.subscribe_once(
                functools.partial(hold_subscription, self._supervisor, self._meta, wanted_changes(kinds))
            )
