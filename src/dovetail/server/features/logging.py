"""Log messages from handlers to the client: `await ctx.log.info("booking", city=city)`."""

from __future__ import annotations

import time
from typing import Any

import msgspec

from dovetail.protocol.log_levels import is_at_least
from dovetail.runtime.rate_limit import TokenBucket
from dovetail.server.invocation import Invocation
from dovetail.server.session import ServerCall
from dovetail.text.redact import redact
from dovetail.types.messages import LogLevel

MESSAGES_A_SECOND = 100.0
MESSAGES_AT_ONCE = 500.0

MESSAGE = "notifications/message"


class LogRateLimit:
    """Limit on the messages to one client: those above the rate, or more than it reads, are dropped and counted."""

    def __init__(self) -> None:
        self._bucket = TokenBucket(MESSAGES_A_SECOND, MESSAGES_AT_ONCE)
        self.dropped = 0

    def admits(self, call: ServerCall, now: float) -> bool:
        """True if one more message may be sent."""
        if not call.sink.congested and self._bucket.take(now) == 0:
            return True
        self.dropped += 1
        return False


class Log:
    """Messages to the client whose request is being served.

    They reach it if it asked for their level: on the handshake era with `logging/setLevel`, on the envelope
    era with the request itself (2026-07-28 logging, "Per-request log level").
    """

    __slots__ = ("_invocation", "_name")

    def __init__(self, invocation: Invocation, name: str) -> None:
        self._invocation = invocation
        self._name = name

    def named(self, name: str) -> Log:
        """The same log under another logger's name."""
        return Log(self._invocation, name)

    async def __call__(self, level: LogLevel, message: str, /, **fields: Any) -> None:
        """Send a message with whatever belongs to it; what looks like a secret is taken out of it."""
        call = self._invocation.call
        threshold = wanted_level(call)
        if call.silent or threshold is None or not is_at_least(level, threshold):
            return
        limit = call.session.log_rate
        if not limit.admits(call, time.monotonic()):
            return
        if limit.dropped:
            _send(call, "warning", self._name, {"message": f"{limit.dropped} messages were left out"})
            limit.dropped = 0
        _send(call, level, self._name, redact(_plain({"message": message, **fields})))

    async def debug(self, message: str, /, **fields: Any) -> None:
        await self("debug", message, **fields)

    async def info(self, message: str, /, **fields: Any) -> None:
        await self("info", message, **fields)

    async def notice(self, message: str, /, **fields: Any) -> None:
        await self("notice", message, **fields)

    async def warning(self, message: str, /, **fields: Any) -> None:
        await self("warning", message, **fields)

    async def error(self, message: str, /, **fields: Any) -> None:
        await self("error", message, **fields)

    async def critical(self, message: str, /, **fields: Any) -> None:
        await self("critical", message, **fields)

    async def alert(self, message: str, /, **fields: Any) -> None:
        await self("alert", message, **fields)

    async def emergency(self, message: str, /, **fields: Any) -> None:
        await self("emergency", message, **fields)


def wanted_level(call: ServerCall) -> str | None:
    """The least level that the client wants; none if it wants nothing."""
    if "logging/setLevel" in call.terms.revision.methods:
        return call.session.log_level
    return call.terms.log_level


def _send(call: ServerCall, level: str, logger: str, data: Any) -> None:
    call.notify(MESSAGE, {"level": level, "logger": logger, "data": data})


def _plain(fields: dict[str, Any]) -> Any:
    """The fields as JSON values; those that JSON cannot hold become text, because logging must not fail."""
    try:
        return msgspec.to_builtins(fields, str_keys=True, enc_hook=str)
    except Exception:
        return {name: value if isinstance(value, str) else repr(value) for name, value in fields.items()}
