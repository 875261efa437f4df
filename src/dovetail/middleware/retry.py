"""Retries of requests that have no side effects."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable
from typing import Any, cast

from dovetail.protocol.errors import INTERNAL_ERROR, ConnectionLost, LocalError, ProtocolError, RemoteError, Timeout
from dovetail.runtime.middleware import Exchange, Proceed
from dovetail.runtime.rate_limit import TOO_MANY_REQUESTS

READS = frozenset(
    {
        "completion/complete",
        "ping",
        "prompts/get",
        "prompts/list",
        "resources/list",
        "resources/read",
        "resources/templates/list",
        "server/discover",
        "tools/list",
    }
)
"""Requests without side effects, which are safe to repeat."""

_TRANSIENT_CODES = frozenset({INTERNAL_ERROR, TOO_MANY_REQUESTS})


class Retries:
    """Repeats reads that failed with a transient error: a timeout, a lost connection, an internal error.

    Tool calls are repeated only for the names in `tools`, because only their author knows if that is safe. A request
    with input responses or a request state is never repeated: both may be used once. The pause between attempts
    doubles, with random jitter.
    """

    def __init__(
        self, attempts: int = 3, *, pause: float = 0.1, longest_pause: float = 5.0, tools: Iterable[str] = ()
    ) -> None:
        if attempts < 1:
            raise LocalError(f"attempts must be at least 1, not {attempts}")
        self._attempts = attempts
        self._pause = pause
        self._longest_pause = longest_pause
        self._tools = frozenset(tools)

    async def __call__(self, exchange: Exchange, proceed: Proceed) -> dict[str, Any]:
        """Pass a request on, and repeat it after a transient error."""
        if not self._may_repeat(exchange):
            return await proceed(exchange)
        for attempt in range(1, self._attempts):
            try:
                return await proceed(exchange)
            except (Timeout, ConnectionLost, RemoteError, ProtocolError) as problem:
                wait = self._wait(problem, attempt)
                if wait is None:
                    raise
            await asyncio.sleep(wait)
            exchange.problem = None
        return await proceed(exchange)

    def _may_repeat(self, exchange: Exchange) -> bool:
        params = exchange.params
        if "inputResponses" in params or "requestState" in params:
            return False
        if exchange.method == "tools/call":
            return exchange.target in self._tools
        return exchange.method in READS

    def _wait(self, problem: Exception, attempt: int) -> float | None:
        """The seconds to wait before the next attempt; None if there is none."""
        wait = min(self._pause * 2 ** (attempt - 1), self._longest_pause) * random.uniform(0.5, 1.0)
        if isinstance(problem, (RemoteError, ProtocolError)):
            if problem.code not in _TRANSIENT_CODES:
                return None
            requested = _requested_wait(problem.data)
            return None if requested > self._longest_pause else max(wait, requested)
        return wait


def _requested_wait(data: Any) -> float:
    """The seconds that the peer asks to wait (`retryAfterMs`)."""
    wait = cast("dict[str, Any]", data).get("retryAfterMs") if isinstance(data, dict) else None
    return wait / 1000 if isinstance(wait, (int, float)) and wait > 0 else 0.0
