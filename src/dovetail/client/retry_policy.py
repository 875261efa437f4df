"""What may be sent a second time, and after what.

How often a server that is gone is started anew.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any

from dovetail.protocol.errors import HEADER_MISMATCH, ConnectionLost, DovetailError, RemoteError, SessionEnded
from dovetail.runtime.rate_limit import Bucket
from dovetail.types.tools import Tool

_HARMLESS = frozenset(
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
        "tools/list",
    }
)
"""Requests that change nothing at a server, or nothing more when they come twice."""


class RetryPolicy:
    """Knows which requests may be repeated though they may have been served already."""

    def __init__(self) -> None:
        self._tools: frozenset[str] = frozenset()

    def learn(self, tools: Sequence[Tool]) -> None:
        """Take from a list of tools which of them say that a second call does no harm."""
        self._tools = frozenset(tool.name for tool in tools if _is_harmless(tool))

    def allow(self, problem: DovetailError, method: str, params: Mapping[str, Any]) -> bool:
        """Whether a request that ended so may be sent again, once what was wrong has been put right.

        What a server refused it did not run: a session that was over (2025-11-25 transports, "Session Management"),
        headers that did not fit a tool any more (2026-07-28 Streamable HTTP, "Client Behavior").
        """
        if isinstance(problem, SessionEnded):
            if not problem.ran or method in _HARMLESS:
                return True
            return method == "tools/call" and params.get("name") in self._tools
        return isinstance(problem, RemoteError) and problem.code == HEADER_MISMATCH and method == "tools/call"


def _is_harmless(tool: Tool) -> bool:
    hints = tool.annotations
    return hints is not None and bool(hints.read_only_hint or hints.idempotent_hint)


AT_ONCE = 3
SECONDS_EACH = 20.0
"""A server that ends as soon as it is used is not started over and over."""


class RestartPolicy:
    """Counts restarts, and lets one caller at a time begin one."""

    def __init__(self) -> None:
        self.turn = asyncio.Lock()
        self._bucket = Bucket(1 / SECONDS_EACH, AT_ONCE)

    def count(self, reason: str | None) -> None:
        """One more; too many in too short a time are refused."""
        wait = self._bucket.take(time.monotonic())
        if wait > 0:
            why = reason or "the server could not be reached"
            raise ConnectionLost(f"{why}; it was started anew too often, the next time is in {wait:.0f} s")
