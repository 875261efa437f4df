"""Log messages of a server, delivered to `on_log`."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias, get_args

import msgspec

from dovetail.protocol.errors import LocalError
from dovetail.types.messages import LogLevel, LogParams
from dovetail.types.serialization import load

logger = logging.getLogger("dovetail")

OnLog: TypeAlias = "Callable[[str, Any, str | None], Awaitable[None] | None]"
"""Called with the level, the data (any JSON value) and the name of the server's logger."""

DEFAULT_LEVEL = "info"
MAX_WAITING = 1000
"""Messages that may wait for a slow async `on_log`; more are dropped."""


def initial_log_level(level: str | None, *, wanted: bool) -> str | None:
    """The level to request from servers; None without an `on_log`."""
    if level is None:
        return DEFAULT_LEVEL if wanted else None
    if not wanted:
        raise LocalError("log_level is the level of the messages for on_log, and there is no on_log")
    if level not in get_args(LogLevel):
        raise LocalError(f"There is no log level {level!r}; there are {', '.join(get_args(LogLevel))}")
    return level


class LogDelivery:
    """Delivers `notifications/message`; an async function gets one message after the other."""

    def __init__(self, on_log: OnLog) -> None:
        self._on_log = on_log
        self._waiting: deque[Awaitable[None]] = deque()
        self._delivering: asyncio.Task[None] | None = None

    def notified(self, method: str, params: dict[str, Any]) -> None:
        """Deliver a message; a malformed one is dropped."""
        if method != "notifications/message":
            return
        try:
            message = load(LogParams, params)
        except msgspec.ValidationError as problem:
            logger.debug("A malformed log message was dropped: %s", problem)
            return
        try:
            outcome = self._on_log(message.level, message.data, message.logger)
        except Exception:
            logger.exception("on_log failed")
            return
        if inspect.isawaitable(outcome):
            self._enqueue(outcome)

    def close(self) -> None:
        """Deliver no more messages."""
        if self._delivering is not None:
            self._delivering.cancel()
        self._drop()

    def _enqueue(self, delivery: Awaitable[None]) -> None:
        if len(self._waiting) >= MAX_WAITING:
            logger.warning("on_log is too slow: a message was dropped")
            _forget(delivery)
            return
        self._waiting.append(delivery)
        if self._delivering is None:
            self._delivering = asyncio.get_running_loop().create_task(self._deliver())

    async def _deliver(self) -> None:
        try:
            while self._waiting:
                try:
                    await self._waiting.popleft()
                except Exception:
                    logger.exception("on_log failed")
        finally:
            self._delivering = None
            self._drop()

    def _drop(self) -> None:
        while self._waiting:
            _forget(self._waiting.popleft())


def _forget(delivery: Awaitable[None]) -> None:
    if inspect.iscoroutine(delivery):
        delivery.close()
