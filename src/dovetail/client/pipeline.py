"""Requests of a client that has middleware, or that keeps results."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable
from typing import Any, Protocol

from dovetail.runtime.middleware import Chain, Exchange, as_object, refuse_other_method
from dovetail.runtime.pending_requests import OnProgress

from .cache import ResultCache
from .subscriptions import hold_subscription
from .supervisor import Supervisor


class SendParams(Protocol):
    """Sends a request with these params, and with an id of its own unless one is given."""

    def __call__(self, body: dict[str, Any], *, id: int | None = None) -> Awaitable[Any]:
        """The result."""
        ...


class Pipeline:
    """The way of one request: what is kept, then middleware, then the server."""

    def __init__(
        self, supervisor: Supervisor, meta: dict[str, Any] | None, chain: Chain | None, cache: ResultCache | None
    ) -> None:
        self._supervisor = supervisor
        self._meta = meta
        self._chain = chain
        self._cache = cache

    async def request(self, method: str, body: dict[str, Any], progress: OnProgress | None, send: SendParams) -> Any:
        """The result, from wherever it comes."""
        cache = self._cache
        if cache is None or progress is not None or method not in self._supervisor.agreement.revision.cacheable:
            return await self._wrapped(method, body, send)
        loop = asyncio.get_running_loop()
        if (found := cache.find(method, body, loop.time())) is not None:
            return found
        age = cache.age(method)
        result = await self._wrapped(method, body, send)
        if cache.keep(method, body, result, loop.time(), age):
            self._listen(cache)
        return result

    async def _wrapped(self, method: str, body: dict[str, Any], send: SendParams) -> Any:
        chain = self._chain
        if chain is None or not chain.wraps(method):
            return await send(body)

        async def last(exchange: Exchange) -> dict[str, Any]:
            refuse_other_method(exchange, method)
            id = exchange.id = self._supervisor.connection.pending.next_id()
            return as_object(method, await send(exchange.params, id=id))

        agreement = self._supervisor.agreement
        exchange = Exchange("client", "out", method, body, agreement.revision, peer=agreement.server)
        return await chain.run(exchange, last)

    def _listen(self, cache: ResultCache) -> None:
        """Ask to be told of changes, where they do not come by themselves."""
        has = self._supervisor.agreement.capabilities
        told = {"tools": has.tools, "prompts": has.prompts, "resources": has.resources}
        kinds = [kind for kind, capability in told.items() if capability is not None and capability.list_changed]
        if self._meta is not None and kinds:
            cache.listen(functools.partial(hold_subscription, self._supervisor, self._meta, kinds))
