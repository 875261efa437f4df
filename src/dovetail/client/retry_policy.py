"""Retry policy: which requests may be sent again after which errors, and how often a server is restarted."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any

from dovetail.protocol.errors import (
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    ConnectionLost,
    DovetailError,
    HttpStatus,
    OutcomeUnknown,
    RemoteError,
    SessionEnded,
    Timeout,
)
from dovetail.runtime.rate_limit import TOO_MANY_REQUESTS, TokenBucket
from dovetail.transports.reconnection import TEMPORARY_STATUSES
from dovetail.types.tools import Tool

_IDEMPOTENT = frozenset(
    {
        "completion/complete",
        "logging/setLevel",
        "ping",
        "prompts/get",
        "prompts/list",
        "resources/list",
        "resources/read",
        "resources/subscribe",
        "resources/templates/list",
        "resources/unsubscribe",
        "server/discover",
        "tasks/cancel",
        "tasks/get",
        "tasks/list",
        "tasks/result",
        "tasks/update",
        "tools/list",
    }
)
"""Requests that change nothing at a server, or nothing more when they are sent twice."""


class RetryPolicy:
    """Decides which requests may be sent again although the server may have served them already."""

    def __init__(self) -> None:
        self._tools: frozenset[str] = frozenset()

    def learn(self, tools: Sequence[Tool]) -> None:
        """Learn from a list of tools which of them are declared read-only or idempotent."""
        self._tools = frozenset(tool.name for tool in tools if _is_idempotent(tool))

    def allow(self, problem: DovetailError, method: str, params: Mapping[str, Any]) -> bool:
        """True if a request that failed with this error may be sent again, once the cause is repaired.

        A server has not run what it refused: a session that was over (2025-11-25 transports, "Session Management"),
        headers that did not fit a tool any more (2026-07-28 Streamable HTTP, "Client Behavior").
        """
        if isinstance(problem, SessionEnded) and not problem.ran:
            return True
        if isinstance(problem, (SessionEnded, OutcomeUnknown)):
            return method in _IDEMPOTENT or (method == "tools/call" and params.get("name") in self._tools)
        return isinstance(problem, RemoteError) and problem.code == HEADER_MISMATCH and method == "tools/call"


def is_temporary(problem: DovetailError) -> bool:
    """True if the same request may succeed a little later: the server is away, restarting or overloaded."""
    if isinstance(problem, HttpStatus):
        return problem.status in TEMPORARY_STATUSES
    if isinstance(problem, RemoteError):
        return problem.status in TEMPORARY_STATUSES or problem.code in (INTERNAL_ERROR, TOO_MANY_REQUESTS)
    return isinstance(problem, (ConnectionLost, Timeout))


def _is_idempotent(tool: Tool) -> bool:
    hints = tool.annotations
    return hints is not None and bool(hints.read_only_hint or hints.idempotent_hint)


RESTART_BURST = 3
RESTART_SECONDS = 20.0
"""One restart in so many seconds, beyond the burst: a server that crashes at each call is not restarted endlessly."""


class RestartPolicy:
    """Limits the rate of restarts; `lock` is held by the caller that restarts."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self._bucket = TokenBucket(1 / RESTART_SECONDS, RESTART_BURST)

    def count(self, reason: str | None) -> None:
        """Count one restart; raises `ConnectionLost` above the rate."""
        wait = self._bucket.take(time.monotonic())
        if wait > 0:
            why = reason or "the server could not be reached"
            raise ConnectionLost(f"{why}; it was restarted too often, the next restart is possible in {wait:.0f} s")
