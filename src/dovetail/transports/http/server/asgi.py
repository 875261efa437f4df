"""ASGI types, and reading a request body within bounds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

from .timeout_wheel import TimeoutWheel

Message: TypeAlias = MutableMapping[str, Any]
Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
RawHeaders: TypeAlias = list[tuple[bytes, bytes]]


class BodyTooLarge(Exception):
    """The body is larger than the limit."""


class BodyTooSlow(Exception):
    """The body did not arrive in time."""


class ClientGone(Exception):
    """The client disconnected before its request was complete."""


class BodyReader:
    """Reads request bodies up to a size and within some seconds."""

    __slots__ = ("_expired", "_limit", "_wheel")

    def __init__(self, limit: int, seconds: float) -> None:
        self._limit = limit
        self._wheel: TimeoutWheel[asyncio.Task[Any]] = TimeoutWheel(seconds, self._expire)
        self._expired: set[asyncio.Task[Any]] = set()

    async def read(self, receive: Receive, task: asyncio.Task[Any]) -> bytes:
        """The whole body of a request, read in this task."""
        self._wheel.add(task)
        try:
            message = await receive()
            if message["type"] != "http.request":
                raise ClientGone
            body: bytes = message.get("body", b"")
            if message.get("more_body", False):
                return await _read_rest(receive, self._limit, body)
        except asyncio.CancelledError:
            if task not in self._expired:
                raise
            self._expired.discard(task)
            task.uncancel()
            raise BodyTooSlow from None
        finally:
            self._wheel.discard(task)
        if len(body) > self._limit:
            raise BodyTooLarge
        return body

    def _expire(self, task: asyncio.Task[Any]) -> None:
        self._expired.add(task)
        task.cancel()


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
