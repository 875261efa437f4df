"""The words of ASGI that an HTTP transport uses, and reading a body within bounds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

from .timeout_wheel import Ticker

Message: TypeAlias = MutableMapping[str, Any]
Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
RawHeaders: TypeAlias = list[tuple[bytes, bytes]]


class BodyTooLarge(Exception):
    """More bytes came than are taken."""


class BodyTooSlow(Exception):
    """The body did not arrive in time."""


class ClientGone(Exception):
    """The client went away before its request was whole."""


class BodyReader:
    """Reads bodies up to a size, none of them for longer than some seconds."""

    __slots__ = ("_limit", "_ticker")

    def __init__(self, limit: int, seconds: float) -> None:
        self._limit = limit
        self._ticker = Ticker(seconds)

    async def read(self, receive: Receive, task: asyncio.Task[Any]) -> bytes:
        """The whole body of a request, in this task; one that is too large, or comes too slowly, is not waited for."""
        slow = False

        def too_slow() -> None:
            nonlocal slow
            slow = True
            task.cancel()

        self._ticker.add(task, too_slow)
        try:
            message = await receive()
            if message["type"] != "http.request":
                raise ClientGone
            body: bytes = message.get("body", b"")
            if message.get("more_body", False):
                return await _read_rest(receive, self._limit, body)
        except asyncio.CancelledError:
            if not slow:
                raise
            task.uncancel()
            raise BodyTooSlow from None
        finally:
            self._ticker.discard(task)
        if len(body) > self._limit:
            raise BodyTooLarge
        return body


async def _read_rest(receive: Receive, limit: int, first: bytes) -> bytes:
    parts, size = [first], len(first)
    while True:
        if size > limit:
            raise BodyTooLarge
        message = await receive()
        if message["type"] != "http.request":
            raise ClientGone
        part: bytes = message.get("body", b"")
        parts.append(part)
        size += len(part)
        if not message.get("more_body", False):
            if size > limit:
                raise BodyTooLarge
            return b"".join(parts)


async def until_gone(receive: Receive) -> None:
    """Wait until the client has closed its side."""
    while (await receive())["type"] != "http.disconnect":
        pass
