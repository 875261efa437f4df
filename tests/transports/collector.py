"""Somebody at the end of a channel who writes down what comes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from dovetail.wire.jsonrpc import Id
from dovetail.wire.lines import TooLong
from tests.support.raw import PATIENCE


class Collector:
    """A receiver that keeps every line and can wait for what is to come."""

    def __init__(self) -> None:
        self.lines: list[bytes | TooLong] = []
        self.ends: list[str | None] = []
        self.on_line: Callable[[bytes | TooLong], None] = lambda line: None
        self._news = asyncio.Event()

    def received(self, line: bytes) -> None:
        self.take(line)

    def overlong(self, line: TooLong) -> None:
        self.take(line)

    def failed(self, id: Id, problem: Exception) -> None:
        raise AssertionError(f"a channel of lines loses no single request: {id!r}, {problem}")

    def disconnected(self, reason: str | None) -> None:
        self.ends.append(reason)
        self._news.set()

    def take(self, line: bytes | TooLong) -> None:
        self.lines.append(line)
        self._news.set()
        self.on_line(line)

    async def until(self, true: Callable[[], object]) -> None:
        """Wait until something holds of what came."""
        async with asyncio.timeout(PATIENCE):
            while not true():
                self._news.clear()
                await self._news.wait()

    async def count(self, lines: int) -> None:
        await self.until(lambda: len(self.lines) >= lines)

    async def end(self) -> None:
        await self.until(lambda: self.ends)
